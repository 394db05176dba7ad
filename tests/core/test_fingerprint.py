"""The two digests: which operation a key names, and which request came with it."""

from __future__ import annotations

import hashlib
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.fingerprint import DIGEST_BYTES, differing_parts, fingerprint, receipt_id


class Parts(TypedDict):
    method: str
    path: bytes
    query: bytes
    content_type: bytes
    body: bytes


PARTS: Parts = {
    "method": "POST",
    "path": b"/pay",
    "query": b"a=1",
    "content_type": b"application/json",
    "body": b"{}",
}


def _changed(**change: str | bytes) -> Parts:
    return PARTS | change  # type: ignore[return-value]


@pytest.mark.parametrize(
    "other",
    [
        _changed(method="PATCH"),
        _changed(path=b"/pay/"),
        _changed(query=b"a=2"),
        _changed(query=b""),
        _changed(content_type=b"text/plain"),
        _changed(content_type=b""),
        _changed(body=b"{} "),
        _changed(body=b""),
        _changed(path=b"/paya", query=b"=1"),
        _changed(content_type=b"application/jso", body=b"n{}"),
    ],
)
def test_a_request_that_differs_in_any_part_is_another(other: Parts) -> None:
    assert fingerprint(**other) != fingerprint(**PARTS)


@pytest.mark.parametrize(
    "content_type",
    [
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b"application/json;boundary=x",
        b" application/json ",
    ],
)
def test_of_the_content_type_only_the_media_type_counts(content_type: bytes) -> None:
    assert fingerprint(**_changed(content_type=content_type)) == fingerprint(**PARTS)


def test_a_digest_can_stand_for_a_body() -> None:
    digests = [hashlib.sha256(body).digest() for body in (b"a", b"b", b"a")]
    one, other, again = (fingerprint(**_changed(body=digest)) for digest in digests)

    assert one == again
    assert differing_parts(one, other) == ("body",)


def test_the_letter_case_of_the_method_does_not_count() -> None:
    assert fingerprint(**_changed(method="post")) == fingerprint(**PARTS)


@given(st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8))
def test_bytes_that_move_from_one_part_to_the_next_count(
    path: bytes, query: bytes, path_2: bytes, query_2: bytes
) -> None:
    same = (path, query) == (path_2, query_2)
    one, other = _changed(path=path, query=query), _changed(path=path_2, query=query_2)

    assert (fingerprint(**one) == fingerprint(**other)) is same


IDS = [
    ("default", None, "k"),
    ("default", "", "k"),
    ("default", "-", "k"),
    ("default", "a", "k"),
    ("default", "A", "k"),
    ("default", "ak", ""),
    ("other", None, "k"),
    ("", "default", "k"),
    ("default", "a", "K"),
    ("default", "k", "a"),
    ("default", "ä", "k"),
]


def test_every_owner_namespace_and_key_has_an_id_of_its_own() -> None:
    ids = {receipt_id(*parts) for parts in IDS}

    assert len(ids) == len(IDS)
    assert {len(each) for each in ids} == {DIGEST_BYTES}


@given(st.text(), st.text())
def test_any_two_principals_are_kept_apart(one: str, other: str) -> None:
    surrogate = "\ud800" + one

    assert (receipt_id("n", one, "k") == receipt_id("n", other, "k")) is (one == other)
    assert receipt_id("n", surrogate, "k") != receipt_id("n", one, "k")
    assert receipt_id("n", None, "k") != receipt_id("n", one, "k")


def test_an_id_and_a_fingerprint_of_the_same_bytes_differ() -> None:
    # Both labels are hashed: a digest of one kind can never be taken for one of the other.
    id_ = receipt_id("/pay", None, "{}")
    print_ = fingerprint(method="-", path=b"{}", query=b"", content_type=b"", body=b"")

    assert bytes(id_) != bytes(print_)


def test_the_digests_do_not_change_between_releases() -> None:
    # Stored receipts are found by these bytes: a change would execute every known key again.
    assert receipt_id("default", None, "k").hex() == "4c75577ad9e98ed3ad8f03c85f75ebcb"
    assert receipt_id("default", "tenant-1", "k").hex() == "07e8005420bdeb6ae61bd58de972d49d"
    assert fingerprint(**PARTS).hex() == "6dcfa839b18d9b6964a2c5a26fa1757c"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("method", {"method": "PATCH"}),
        ("path", {"path": b"/refund"}),
        ("query", {"query": b"a=2"}),
        ("content type", {"content_type": b"text/plain"}),
        ("body", {"body": b"[1]"}),
    ],
)
def test_the_part_that_differs_can_be_told_without_the_first_request(
    part: str, change: dict[str, str | bytes]
) -> None:
    first, second = fingerprint(**PARTS), fingerprint(**_changed(**change))

    assert differing_parts(first, second) == (part,)
    assert differing_parts(first, first) == ()
