"""What of a multipart body counts: everything but the boundary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.client.boundaries import without_boundary

LINES = st.binary(max_size=40)
BOUNDARIES = st.from_regex(r"[0-9A-Za-z'()+_,./:=?-]{8,70}", fullmatch=True)


def _form(parts: list[bytes], boundary: str) -> tuple[bytes, bytes]:
    edge = b"--" + boundary.encode()
    body = b"".join(edge + b"\r\n\r\n" + part + b"\r\n" for part in parts) + edge + b"--\r\n"
    return f'multipart/form-data; boundary="{boundary}"'.encode(), body


@given(st.lists(LINES, min_size=1, max_size=4), BOUNDARIES, BOUNDARIES)
def test_the_same_parts_are_the_same_whatever_the_boundary(
    parts: list[bytes], one: str, two: str
) -> None:
    assert without_boundary(*_form(parts, one)) == without_boundary(*_form(parts, two))


@given(st.lists(LINES, min_size=1, max_size=4), st.lists(LINES, min_size=1, max_size=4), BOUNDARIES)
def test_other_parts_are_another_body(one: list[bytes], two: list[bytes], boundary: str) -> None:
    alike = without_boundary(*_form(one, boundary)) == without_boundary(*_form(two, boundary))

    assert alike is (one == two)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"application/json", b"--x\r\n"),
        (b"multipart/form-data", b"--x\r\n"),
        (b"multipart/form-data; boundary=", b"--x\r\n"),
        (b"multipart/form-data; boundary=x", b"not a form"),
        (b"", b""),
    ],
)
def test_what_is_no_form_stays_as_it_is(content_type: bytes, body: bytes) -> None:
    assert without_boundary(content_type, body) == (content_type, body)


def test_the_other_parameters_of_the_media_type_count() -> None:
    one = without_boundary(b"multipart/form-data; boundary=x; charset=utf-8", b"--x--\r\n")
    two = without_boundary(b"multipart/form-data; boundary=y; charset=latin-1", b"--y--\r\n")

    assert one == (b"multipart/form-data; charset=utf-8", b"0:4:--\r\n")
    assert one != two


def test_a_part_that_looks_like_two_is_one() -> None:
    two = _form([b"a", b"b"], "one-boundary")
    disguised = _form([b"a\r\n--\r\n\r\nb"], "other-boundary")

    assert without_boundary(*disguised) != without_boundary(*two)
