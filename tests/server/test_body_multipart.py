"""Multipart bodies by their parts: what does not count, what does, and what is left whole."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.canonical import FIELDS_MAX, Pointer
from replayfloor.server.body_multipart import HEADER_BYTES_MAX, HEADERS_MAX, parts_hash
from server.multipart import Part, content_type, write

PHOTO = Part("photo", b"\x89PNG\r\n\x1a\n\x00", "a.png", "image/png")
FIRST = [Part("title", b"Cat"), PHOTO, Part("tag", b"x"), Part("tag", b"y")]
TITLE, _, X, Y = FIRST
NAMED = b'Content-Disposition: form-data; name="a"\r\n'
LIMIT_S = 2.0

names = st.text("abc", max_size=2)
contents = st.binary(max_size=12) | st.sampled_from(
    [b"\r\n", b"--", b"\r\n-", b"\r\n--boundar", b"\r"]
)
parts = st.builds(
    Part,
    names,
    contents,
    st.none() | names,
    st.none() | st.sampled_from(["text/plain", "image/png"]),
)


def digest(
    body: bytes, kind: bytes | None = None, exclude: tuple[Pointer, ...] = ()
) -> bytes | None:
    hashed = parts_hash(content_type() if kind is None else kind, exclude)
    assert hashed is not None
    hashed.update(body)
    return hashed.digest()


def by_name(body: Sequence[Part]) -> dict[str, list[Part]]:
    grouped: dict[str, list[Part]] = defaultdict(list)
    for part in body:
        grouped[part.name].append(part)
    return grouped


@pytest.mark.parametrize(
    "other",
    [
        [PHOTO, TITLE, X, Y],
        [X, Y, PHOTO, TITLE],
        [X, PHOTO, Y, TITLE],
    ],
)
def test_the_order_of_parts_with_different_names_does_not_count(other: list[Part]) -> None:
    assert digest(write(other)) == digest(write(FIRST)) is not None


@pytest.mark.parametrize(
    "other",
    [
        [TITLE, PHOTO, Y, X],
        [TITLE, PHOTO, X],
        [TITLE, PHOTO, X, Y, Y],
        [TITLE, PHOTO, Part("tag", b"xy")],
        [Part("title", b"Dog"), PHOTO, X, Y],
        [Part("Title", b"Cat"), PHOTO, X, Y],
        [Part("title", b"Cat", "title.txt"), PHOTO, X, Y],
        [TITLE, Part("photo", PHOTO.content, "b.png", "image/png"), X, Y],
        [TITLE, Part("photo", PHOTO.content, "a.png", "image/gif"), X, Y],
        [TITLE, Part("photo", PHOTO.content, "a.png"), X, Y],
        [TITLE, Part("photo", PHOTO.content + b"\n", "a.png", "image/png"), X, Y],
        [TITLE, Part("photo", b"", "a.png", "image/png"), X, Y],
        [],
    ],
)
def test_names_file_names_types_and_contents_count(other: list[Part]) -> None:
    assert None is not digest(write(other)) != digest(write(FIRST))


@pytest.mark.parametrize("boundary", [b"x", b"----WebKitFormBoundary7MA4YWxk", b"a" * 70])
def test_the_boundary_does_not_count(boundary: bytes) -> None:
    quoted = b'Multipart/Form-Data; charset=utf-8; Boundary="' + boundary + b'"'

    for kind in (content_type(boundary), quoted):
        assert digest(write(FIRST, boundary), kind) == digest(write(FIRST))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (NAMED + b"X: 1\r\n", NAMED.lower().replace(b": ", b":") + b"x:  1 \r\n", True),
        (NAMED + b"X: 1\r\n", b"X: 1\r\n" + NAMED, True),
        (NAMED + b"X: 1\r\n", NAMED, False),
        (NAMED + b"X: 1\r\n", NAMED + b"X: 2\r\n", False),
        (NAMED + b"X: 1\r\n", NAMED + b"Y: 1\r\n", False),
        (NAMED + b"X: 1\r\nX: 2\r\n", NAMED + b"X: 2\r\nX: 1\r\n", False),
        (NAMED + b"X: \r\n", NAMED, False),
    ],
)
def test_every_header_of_a_part_counts(one: bytes, other: bytes, expected: bool) -> None:
    first, second = (digest(write([headers + b"\r\nv"])) for headers in (one, other))

    assert None not in (first, second)
    assert (first == second) is expected


@given(st.lists(parts, max_size=5), st.lists(parts, max_size=5), st.randoms())
@settings(deadline=None)
def test_two_bodies_are_the_same_exactly_if_each_name_has_the_same_parts(
    one: list[Part], other: list[Part], shuffle: random.Random
) -> None:
    boundary = b"another-%d" % shuffle.randrange(10**9)
    shuffled = [part for group in _shuffled(by_name(one), shuffle) for part in group]

    first = digest(write(one))
    assert first is not None
    assert digest(write(shuffled, boundary), content_type(boundary)) == first
    assert (digest(write(other)) == first) is (by_name(one) == by_name(other))


def _shuffled(grouped: dict[str, list[Part]], shuffle: random.Random) -> list[list[Part]]:
    groups = list(grouped.values())
    shuffle.shuffle(groups)
    return groups


@given(
    st.lists(parts, max_size=3).map(write)
    | st.binary(max_size=30).map(lambda end: b"--boundary" + end),
    st.lists(st.integers(0, 300)),
)
@settings(max_examples=150, deadline=None)
def test_it_does_not_matter_where_the_body_is_divided(body: bytes, cuts: list[int]) -> None:
    hashed = parts_hash(content_type(), ())
    assert hashed is not None
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    for start, end in itertools.pairwise(edges):
        hashed.update(body[start:end])

    assert hashed.digest() == digest(body)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "body",
    [
        write(FIRST),
        write([Part("a", b"\r\n--boundar\r\n--boundarY\r\r\n--\n")]),
        write([Part("a", b"\r\n--boundary"), TITLE]),
        b"\r\nab-" + write(FIRST),
        write([]),
        write(FIRST) + b"epilogue",
    ],
)
def test_a_body_in_tiny_pieces_is_the_same_body(body: bytes, size: int) -> None:
    hashed = parts_hash(content_type(), ())
    assert hashed is not None
    for start in range(0, len(body), size):
        hashed.update(body[start : start + size])

    assert hashed.digest() == digest(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no parts",
        write(FIRST)[:-6],
        write(FIRST)[:40],
        b"preamble\r\n" + write(FIRST),
        b"\r\n" + write(FIRST),
        write(FIRST, b"other"),
        write([b"\r\nno headers"]),
        write([b"Content-Type: text/plain\r\n\r\nno name"]),
        write([b"Content-Disposition: form-data\r\n\r\nno name"]),
        write([b"Content-Disposition: attachment; name=a\r\n\r\nno field"]),
        write([b'Content-Disposition: form-data; name="a"; name="b"\r\n\r\ntwo names']),
        write([b"Content-Disposition: form-data; name=a; name*=utf-8''b\r\n\r\ntwo names"]),
        write([b'Content-Disposition: form-data; name="a\\"b"\r\n\r\nan escape, or not']),
        write([b'Content-Disposition: form-data; name="a" b\r\n\r\nunclear']),
        write([b"Content-Disposition: form-data; name=a\r\n" * 2 + b"\r\ntwice"]),
        write([b"Content-Disposition: form-data; name=a\nX: y\r\n\r\nhalf a line end"]),
        write([b"Content-Disposition: form-data; name=a\r\n folded\r\n\r\n"]),
        write([b"Content-Disposition: form-data; name=a\r\nX y: z\r\n\r\n"]),
        write([NAMED + b"X: half\nof a line end\r\n\r\n"]),
        write([NAMED + b"X: \0\r\n\r\n"]),
        write(FIRST).replace(b"\r\n--boundary\r\n", b"\r\n--boundary \r\n"),
        write(FIRST).replace(b"\r\n--boundary\r\n", b"\r\n--boundary\t\r\n"),
        write(FIRST).replace(b"\r\n--boundary--", b"\r\n--boundary --"),
    ],
)
def test_a_body_that_is_not_clear_is_not_split(body: bytes) -> None:
    assert digest(body) is None


@pytest.mark.parametrize(
    "kind",
    [
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b'multipart/form-data; boundary="',
        b"multipart/form-data; boundary=a; boundary=b",
        b"multipart/form-data; boundary=" + b"a" * 71,
        b'multipart/form-data; boundary="a "',
        b'multipart/form-data; boundary="a\r\nb"',
        b"multipart/mixed; boundary=a",
        b"text/plain; boundary=a",
        b"",
    ],
)
def test_without_one_clear_boundary_there_are_no_parts(kind: bytes) -> None:
    assert parts_hash(kind, ()) is None


def test_an_epilogue_does_not_count() -> None:
    assert digest(write(FIRST) + b"anything") == digest(write(FIRST)[:-2]) == digest(write(FIRST))


def test_a_part_that_is_excluded_does_not_count_whatever_it_is() -> None:
    times = [[Part("t", b"1"), TITLE], [TITLE, Part("t", b"2", "t.txt"), Part("t")], [TITLE]]

    assert len({digest(write(each), exclude=(("t",),)) for each in times}) == 1
    assert len({digest(write(each), exclude=(("t", "x"), ("u",))) for each in times}) == 3
    assert digest(write([Part("ä")]), exclude=(("ä",),)) == digest(write([]))


def test_headers_beyond_the_limits_are_not_read() -> None:
    head = b"Content-Disposition: form-data; name=a\r\n"

    assert digest(write([head + b"X: y\r\n" * (HEADERS_MAX - 1) + b"\r\n"])) is not None
    assert digest(write([head + b"X: y\r\n" * HEADERS_MAX + b"\r\n"])) is None
    room = HEADER_BYTES_MAX - len("X: ")
    assert digest(write([head + b"X: " + b"y" * room + b"\r\n\r\n"])) is not None
    assert digest(write([head + b"X: " + b"y" * (room + 1) + b"\r\n\r\n"])) is None


@pytest.mark.parametrize("size", [1, 11, 12, 13, 1_000_000])
def test_more_parts_than_a_form_has_are_not_read(size: int) -> None:
    most = [Part(str(number)) for number in range(FIELDS_MAX)]

    def in_pieces(body: bytes) -> bytes | None:
        hashed = parts_hash(content_type(), ())
        assert hashed is not None
        for start in range(0, len(body), size):
            hashed.update(body[start : start + size])
        return hashed.digest()

    assert in_pieces(write(most)) == digest(write(most[::-1])) is not None
    assert in_pieces(write([*most, TITLE])) is None


@pytest.mark.parametrize(
    "hostile",
    [
        write([Part("a", b"\r\n--bX" * 700_000)], b"b"),
        write([Part("a", b"\r\n--b" + b" " * 4_000_000)], b"b"),
        b"\r\n" * 2_000_000 + write([TITLE], b"b"),
        write([TITLE], b"b") + b"\r\n--b" * 700_000,
        write([b"X: " + b" " * 4_000_000], b"b"),
        write([b"X" * 4_000_000], b"b"),
        write([b"X: y\r\n" * 700_000], b"b"),
        write([Part("a", b"\r" * 4_000_000)], b"b"),
    ],
    ids=["false delimiters", "padding", "preamble", "epilogue", "spaces", "name", "headers", "CR"],
)
def test_a_hostile_body_takes_no_longer_than_any_other(hostile: bytes) -> None:
    began = time.process_time()

    digest(hostile, content_type(b"b"))

    # Without the limits the slowest of these takes this long per megabyte.
    assert time.process_time() - began < LIMIT_S
