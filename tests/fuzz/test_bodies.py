"""Fingerprints of bodies as they arrive: pieces do not count, limits hold, and nothing raises.

What two bodies of one kind have to be, to be the same, is in the targets; here are the reader that
takes them from the network, bodies that no fuzzer writes, and what they may cost.
"""

from __future__ import annotations

import itertools
import json
import random
import time
import tracemalloc
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.targets import json_body, receipt
from replayfloor.core.canonical import CANONICAL_BYTES_MAX, DEPTH_MAX, FORM, canonical_body
from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt
from replayfloor.server.body import BodyReader
from replayfloor.server.body_rules import DEFAULT_BODY_RULE, BodyRule, body_rule
from replayfloor.server.body_target import RequestHead
from server.multipart import Part, content_type, write

KINDS = (b"application/json", FORM, content_type(), b"multipart/form-data", b"", b"\xff;=\x00")
RULES = (DEFAULT_BODY_RULE, body_rule(exclude=["/a", "/0/a", "/b/1"]), body_rule(fingerprint="off"))
IN_FILE = 16
"""Bytes from which the reader of these tests writes to a file."""

LIMIT_S = 6.0
"""CPU time for a body of some megabytes, with every allocation counted; the slowest takes 1 s."""
MEMORY_BYTES = 96 * 1024 * 1024
"""Memory for any body at all. What takes most is a megabyte of escapes, about 79 MB, and of small
numbers, 42 MB."""

bodies = st.one_of(
    st.binary(max_size=80),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=8).map(
        lambda value: json.dumps(value).encode()
    ),
    st.lists(st.tuples(st.text("ab&=+%", max_size=3), st.text(max_size=3)), max_size=4).map(
        lambda fields: "&".join(f"{name}={value}" for name, value in fields).encode()
    ),
    st.lists(st.builds(Part, st.text("ab", max_size=2), st.binary(max_size=9)), max_size=4).map(
        write
    ),
)


def fingerprint_of(
    body: bytes, kind: bytes, rule: BodyRule, cuts: list[int], spool_bytes: int
) -> Fingerprint:
    """Feed a body to a reader, divided at the cuts."""
    reader = BodyReader(RequestHead("POST", b"/", b"", kind, ()), rule, spool_bytes=spool_bytes)
    edges = sorted({0, *(min(cut, len(body)) for cut in cuts), len(body)})
    for start, end in itertools.pairwise(edges):
        reader.feed(body[start:end])
    read = reader.finish()
    try:
        assert b"".join(read.chunks()) == body
        return read.fingerprint
    finally:
        read.close()


@given(
    bodies,
    st.sampled_from(KINDS),
    st.sampled_from(RULES),
    st.lists(st.integers(0, 200), max_size=6),
)
@settings(max_examples=150, deadline=None, database=None)
def test_a_body_is_the_same_in_any_pieces_in_memory_and_in_a_file(
    body: bytes, kind: bytes, rule: BodyRule, cuts: list[int]
) -> None:
    whole = fingerprint_of(body, kind, rule, [], CANONICAL_BYTES_MAX)

    assert fingerprint_of(body, kind, rule, cuts, CANONICAL_BYTES_MAX) == whole
    assert fingerprint_of(body, kind, rule, cuts, IN_FILE) == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cuts", [[10, 20], [CANONICAL_BYTES_MAX, CANONICAL_BYTES_MAX + 1]])
def test_a_body_that_is_too_large_to_be_read_is_the_same_in_any_pieces(
    kind: bytes, cuts: list[int]
) -> None:
    body = write([Part("a", b"x" * CANONICAL_BYTES_MAX), Part("b")])
    whole = fingerprint_of(body, kind, DEFAULT_BODY_RULE, [], 2 * CANONICAL_BYTES_MAX)

    assert fingerprint_of(body, kind, DEFAULT_BODY_RULE, cuts, IN_FILE) == whole
    assert fingerprint_of(body[1:], kind, DEFAULT_BODY_RULE, cuts, IN_FILE) != whole


numbers = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,9})?([eE][-+]?[0-9]{1,9})?", fullmatch=True
)
documents = st.recursive(
    st.none() | st.booleans() | st.text() | numbers.map(lambda literal: ("number", literal)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(documents, documents, st.randoms())
@settings(max_examples=80, deadline=None, database=None)
def test_json_is_the_same_in_another_form_and_only_then(
    one: object, other: object, chance: random.Random
) -> None:
    form = canonical_body(b"application/json", json_body.written_anew(one))

    assert canonical_body(b"application/json", _compact(one, chance)) == form
    same = canonical_body(b"application/json", _compact(other, chance)) == form
    assert same is (json_body.written_anew(one) == json_body.written_anew(other) or one == other)


def _compact(meaning: object, chance: random.Random) -> bytes:
    """Write a document in the shortest form, its members in any order."""
    match meaning:
        case dict():
            members = [
                _compact(name, chance) + b":" + _compact(value, chance)
                for name, value in meaning.items()
            ]
            chance.shuffle(members)
            return b"{" + b",".join(members) + b"}"
        case list():
            return b"[" + b",".join(_compact(each, chance) for each in meaning) + b"]"
        case (_, str(literal)):
            return literal.encode()
        case _:
            return json.dumps(meaning).encode()


MEGABYTE = 1024 * 1024
HUGE = {
    "deep arrays": (b"application/json", b"[" * (MEGABYTE - 1)),
    "deep objects": (b"application/json", b'{"":' * (MEGABYTE // 5) + b"1"),
    "too deep by one, wide": (
        b"application/json",
        b"[" * DEPTH_MAX + b",".join([b"[]"] * 200_000) + b"]" * DEPTH_MAX,
    ),
    "one number": (b"application/json", b"9" * (MEGABYTE - 1)),
    "one exponent": (b"application/json", b"1e" + b"9" * (MEGABYTE - 3)),
    "many numbers": (b"application/json", b"[" + b"1," * 500_000 + b"1]"),
    "many members": (
        b"application/json",
        json.dumps({str(each): each for each in range(60_000)}).encode(),
    ),
    "many NULs": (b"application/json", b"[" + b'"\\u0000",' * 100_000 + b"0]"),
    "backslashes": (b"application/json", b'"' + b"\\\\" * 500_000 + b'\\u0000"'),
    "many fields": (FORM, b"a=1&" * 250_000),
    "one field": (FORM, b"a=" + b"%41" * 340_000),
    "many parts": (content_type(b"b"), write([Part("a")] * 20_000, b"b")),
    "one part, no end": (content_type(b"b"), b"--b\r\n" + b"X" * 4 * MEGABYTE),
    "almost delimiters": (content_type(b"b"), b"--b\r\n" + b"\r\n--" * MEGABYTE),
    "delimiters within a line": (content_type(b"b"), b"--b" * MEGABYTE),
    "a long boundary": (
        content_type(b"-" * 70),
        b"-" * 72 + b"\r\n" + b"-" * 4 * MEGABYTE,
    ),
    "quoted parameters": (b"multipart/form-data; boundary=" + b'"\\' * 30_000, b"--b"),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_body_takes_bounded_time_and_memory(name: str) -> None:
    kind, body = HUGE[name]
    cuts = list(range(0, len(body), 60_000))
    tracemalloc.start()
    try:
        began = time.process_time()
        fingerprint_of(body, kind, DEFAULT_BODY_RULE, cuts, MEGABYTE)
        took_s = time.process_time() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert took_s < LIMIT_S
    assert peak < MEMORY_BYTES


@given(st.integers(0, 1 << 70), st.integers(0, 1 << 70), st.binary(max_size=20))
@example(1 << 40, 0, b"")
@example(0, 1 << 63, b"")
@settings(deadline=None, database=None)
def test_a_length_that_is_too_large_is_refused_before_anything_is_made(
    count: int, length: int, rest: bytes
) -> None:
    content = b"\x01\x00\x00\xc8" + _digits(count) + _digits(length) + rest
    stored = content + zlib.crc32(content).to_bytes(4, "big")
    tracemalloc.start()
    try:
        if max(count, length) > len(rest):
            with pytest.raises(ReceiptCorrupt):
                decode_receipt(receipt.PRINT, stored)
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()


def _digits(number: int) -> bytes:
    """Write a length as the binary form does, in LEB128."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
