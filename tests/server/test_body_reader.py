"""Bodies on their way in: any pieces, in memory or in a file, and nothing left behind."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.canonical import CANONICAL_BYTES_MAX
from replayfloor.server.body import SPOOL_BYTES, BodyReader, ReadBody
from replayfloor.server.body_digest import CHUNK_BYTES
from replayfloor.server.body_rules import DEFAULT_BODY_RULE, BodyRule, body_rule
from replayfloor.server.body_target import RequestHead
from server.multipart import Part, content_type, write

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"
TEXT = b"text/plain"
MIB = 1024 * 1024
UPLOAD_BYTES = 20 * MIB
RULES = [
    DEFAULT_BODY_RULE,
    body_rule(fingerprint="off"),
    body_rule(fingerprint=lambda request: request.body[:3]),
    body_rule(exclude=["/a"]),
]
OPEN_FILES = Path("/proc/self/fd")


def head(kind: bytes) -> RequestHead:
    return RequestHead("POST", b"/upload", b"", kind, ())


def read(
    kind: bytes,
    chunks: list[bytes],
    rule: BodyRule = DEFAULT_BODY_RULE,
    spool_bytes: int = SPOOL_BYTES,
) -> ReadBody:
    reader = BodyReader(head(kind), rule, spool_bytes=spool_bytes)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def divided(body: bytes, size: int = CHUNK_BYTES) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def open_files() -> int:
    return len(os.listdir(OPEN_FILES))


@pytest.fixture
def no_file_stays_open() -> Iterator[None]:
    before = open_files()
    yield
    assert open_files() == before


bodies = st.one_of(
    st.tuples(st.sampled_from([JSON, FORM, TEXT, content_type()]), st.binary(max_size=60)),
    st.tuples(st.just(JSON), st.sampled_from([b'{"b":1,"a":2}', b'[{"a": "\\u0000"}]', b"[1,"])),
    st.tuples(st.just(FORM), st.sampled_from([b"b=1&a=2", b"a"])),
    st.tuples(
        st.just(content_type()),
        st.lists(st.builds(Part, st.sampled_from("ab"), st.binary(max_size=9)), max_size=3).map(
            write
        ),
    ),
)


@given(bodies, st.lists(st.integers(0, 120)), st.integers(0, 80), st.sampled_from(RULES))
@settings(max_examples=150, deadline=None)
def test_neither_the_pieces_nor_the_place_change_the_fingerprint_or_the_body(
    kind_and_body: tuple[bytes, bytes], cuts: list[int], spool_bytes: int, rule: BodyRule
) -> None:
    kind, body = kind_and_body
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(edges)]

    one, other = read(kind, [body], rule), read(kind, chunks, rule, spool_bytes)

    assert one.fingerprint == other.fingerprint
    assert one.data == body
    assert other.data == (body if len(body) <= spool_bytes else None)
    assert other.size == len(body)
    assert b"".join(other.chunks()) == other.as_file().read() == body
    other.close()


@pytest.mark.parametrize("size", [CANONICAL_BYTES_MAX, CANONICAL_BYTES_MAX + 1])
@pytest.mark.parametrize("spool_bytes", [0, CANONICAL_BYTES_MAX // 2, 4 * CANONICAL_BYTES_MAX])
@pytest.mark.parametrize("rule", RULES)
def test_a_retry_at_a_server_with_another_limit_is_the_same_request(
    size: int, spool_bytes: int, rule: BodyRule
) -> None:
    text = b'{"b":1,"a":"' + b"x" * (size - 14) + b'"}'
    form = b"b=1&a=" + b"x" * (size - 6)
    parts = write(
        [Part("b", b"1"), Part("a", b"x" * (size - len(write([Part("b", b"1"), Part("a")]))))]
    )
    for kind, body in (
        (JSON, text),
        (FORM, form),
        (content_type(), parts),
        (content_type(), parts.replace(b"y--\r\n", b"y-x\r\n")),
    ):
        with_default, with_other = (
            read(kind, divided(body), rule, limit) for limit in (SPOOL_BYTES, spool_bytes)
        )
        assert with_default.fingerprint == with_other.fingerprint
        with_default.close()
        with_other.close()


def test_a_document_is_read_by_meaning_up_to_a_size_that_no_server_sets() -> None:
    padding = b" " * (CANONICAL_BYTES_MAX - 13)

    def prints(space: bytes) -> set[bytes]:
        documents = [b'{"a":1,"b":2}', b'{"b":2,"a":1}']
        return {
            read(JSON, [document + space], spool_bytes=2 * MIB).fingerprint
            for document in documents
        }

    assert len(prints(padding)) == 1
    assert len(prints(padding + b" ")) == 2


@pytest.mark.parametrize("rule", [DEFAULT_BODY_RULE, body_rule(fingerprint="off")])
@pytest.mark.parametrize("kind", [content_type(), TEXT, JSON])
def test_a_large_upload_uses_bounded_memory(kind: bytes, rule: BodyRule) -> None:
    opening = write([Part("name", b"v"), Part("file", b"", "f.bin", "image/png")]).removesuffix(
        b"\r\n--boundary--\r\n"
    )
    chunk = bytes(range(256)) * (CHUNK_BYTES // 256)
    gc.collect()
    tracemalloc.start()
    try:
        reader = BodyReader(head(kind), rule)
        reader.feed(opening)
        for _ in range(UPLOAD_BYTES // CHUNK_BYTES):
            reader.feed(chunk)
        reader.feed(b"\r\n--boundary--\r\n")
        held, _ = tracemalloc.get_traced_memory()
        body = reader.finish()
        received = sum(map(len, body.chunks()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    body.close()

    assert received == body.size > UPLOAD_BYTES
    assert held < SPOOL_BYTES // 4
    # What is in memory before there is a file, once more while it is written, and some pieces.
    assert peak < 2 * SPOOL_BYTES + 8 * CHUNK_BYTES


def test_a_large_upload_is_the_same_in_another_order_and_with_another_boundary() -> None:
    file = bytes(range(256)) * 8192
    parts = [Part("name", b"v"), Part("file", file, "f.bin")]

    bodies = [
        read(content_type(boundary), divided(write(order, boundary)))
        for boundary, order in ((b"one", parts), (b"two", parts[::-1]), (b"one", [parts[0]]))
    ]

    assert bodies[0].data is None
    assert bodies[0].fingerprint == bodies[1].fingerprint != bodies[2].fingerprint
    for body in bodies:
        body.close()


@pytest.mark.parametrize("spool_bytes", [SPOOL_BYTES, 0])
def test_the_body_can_be_read_again_in_pieces_and_as_a_file(spool_bytes: int) -> None:
    whole = bytes(range(256)) * 1000
    body = read(TEXT, divided(whole, 1000), spool_bytes=spool_bytes)

    pieces = body.chunks()
    first = next(pieces)
    file = body.as_file()
    assert file.read(1) == b"\x00"
    assert file.readline() == bytes(range(1, 11))
    assert first + b"".join(pieces) == whole
    assert max(map(len, body.chunks())) == CHUNK_BYTES
    assert body.as_file().read() == whole
    assert file.seek(0, os.SEEK_END) == len(whole)
    body.close()


@pytest.mark.parametrize("chunks", [[], [b""], [b"", b""]])
def test_a_body_may_be_empty(chunks: list[bytes]) -> None:
    body = read(TEXT, chunks)

    assert (body.data, body.size, list(body.chunks())) == (b"", 0, [])
    assert body.fingerprint == read(TEXT, [b""], spool_bytes=0).fingerprint


def test_a_body_in_one_piece_is_not_copied() -> None:
    whole = b"x" * 1000

    assert read(TEXT, [whole]).data is whole


@pytest.mark.usefixtures("no_file_stays_open")
def test_a_body_that_is_closed_leaves_no_file() -> None:
    body = read(TEXT, [b"x" * 10], spool_bytes=5)
    file = body.as_file()
    assert not file.closed

    body.close()
    body.close()

    assert file.closed


@pytest.mark.usefixtures("no_file_stays_open")
def test_a_body_that_the_application_has_closed_can_be_closed() -> None:
    body = read(TEXT, [b"x" * 10], spool_bytes=5)

    body.as_file().close()
    body.close()


@pytest.mark.usefixtures("no_file_stays_open")
def test_a_body_that_is_given_up_leaves_no_file() -> None:
    reader = BodyReader(head(TEXT), spool_bytes=5)
    reader.feed(b"x" * 4)
    assert not reader.on_disk
    reader.feed(b"x" * 4)
    assert reader.on_disk
    assert reader.size == 8

    reader.close()
    reader.close()


@pytest.mark.usefixtures("no_file_stays_open")
def test_a_function_that_fails_leaves_no_file() -> None:
    def fail(_request: object) -> bytes:
        raise LookupError("no such account")

    with pytest.raises(LookupError):
        read(TEXT, [b"x" * 10], body_rule(fingerprint=fail), spool_bytes=5)


@pytest.mark.usefixtures("no_file_stays_open")
def test_a_disk_that_is_full_is_an_error_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def on_full_disk() -> IO[bytes]:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr("tempfile.TemporaryFile", on_full_disk)
    reader = BodyReader(head(TEXT), spool_bytes=5)

    with pytest.raises(OSError, match="No space"):
        reader.feed(b"x" * 10)
    # What was lost is not made up for: the rest alone would be another body.
    with pytest.raises(ValueError, match="closed"):
        reader.feed(b"y" * 10)
