"""The receipt: what is kept of an answer, and that its binary form is exact or refused."""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.message import Headers, Response, get_all, get_first
from replayfloor.core.receipt import Receipt, decode_receipt, encode_receipt, keep

PRINT = Fingerprint(bytes(range(DIGEST_BYTES)))
EVERY_BYTE = bytes(range(256))
HEADERS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=200)), max_size=8)

RECEIPTS = st.builds(
    Receipt,
    fingerprint=st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES).map(Fingerprint),
    response=st.builds(
        Response,
        status=st.integers(min_value=100, max_value=599),
        headers=HEADERS.map(tuple),
        body=st.binary(max_size=400),
    ),
    tombstone=st.booleans(),
)

SAMPLE = Receipt(
    PRINT,
    Response(201, ((b"link", b"<a>"), (b"link", b"<b>"), (b"x", EVERY_BYTE)), EVERY_BYTE),
)


def test_a_receipt_that_was_encoded_is_still_equal_and_one_made_of_it_is_encoded_anew() -> None:
    receipt = replace(SAMPLE)
    written = encode_receipt(receipt)
    sealed = replace(receipt, response=Response(201, (), b"cipher"), sealed=True)

    assert receipt == SAMPLE
    assert hash(receipt) == hash(replace(SAMPLE))
    assert encode_receipt(receipt) == written
    assert decode_receipt(PRINT, encode_receipt(sealed)) == sealed


@given(RECEIPTS)
def test_what_is_encoded_is_decoded(receipt: Receipt) -> None:
    assert decode_receipt(receipt.fingerprint, encode_receipt(receipt)) == receipt


def test_every_byte_and_every_line_of_a_header_survives() -> None:
    assert decode_receipt(PRINT, encode_receipt(SAMPLE)) == SAMPLE


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 1 << 20])
def test_bodies_at_the_edges_of_the_length_encoding_survive(size: int) -> None:
    receipt = Receipt(PRINT, Response(200, (), b"x" * size))

    assert decode_receipt(PRINT, encode_receipt(receipt)) == receipt


@pytest.mark.parametrize("status", [100, 204, 304, 599])
def test_a_tombstone_keeps_the_status_and_no_body(status: int) -> None:
    kept = keep(PRINT, Response(status, ((b"etag", b'"1"'),), b"begin"), tombstone=True)

    assert kept == Receipt(PRINT, Response(status, ((b"etag", b'"1"'),), b""), tombstone=True)
    assert decode_receipt(PRINT, encode_receipt(kept)) == kept


def test_a_receipt_cut_short_anywhere_is_refused() -> None:
    data = encode_receipt(SAMPLE)

    for length in range(len(data)):
        with pytest.raises(ReceiptCorrupt):
            decode_receipt(PRINT, data[:length])


def test_a_receipt_with_any_byte_altered_is_refused() -> None:
    data = encode_receipt(SAMPLE)

    for position, byte in enumerate(data):
        for altered in (byte ^ 0x01, byte ^ 0x80, byte ^ 0xFF):
            with pytest.raises(ReceiptCorrupt):
                decode_receipt(PRINT, data[:position] + bytes([altered]) + data[position + 1 :])


def test_bytes_after_a_receipt_are_refused() -> None:
    with pytest.raises(ReceiptCorrupt):
        decode_receipt(PRINT, encode_receipt(SAMPLE) + b"\0")


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_fingerprint_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ReceiptCorrupt, match="16 bytes"):
        decode_receipt(bytes(size), encode_receipt(SAMPLE))


def _sealed(content: bytes) -> bytes:
    return content + zlib.crc32(content).to_bytes(4, "big")


@pytest.mark.parametrize(
    "content",
    [
        b"\x02\x00\x00\xc8\x00\x00",  # a version of the future
        b"\x00\x00\x00\xc8\x00\x00",  # a version of the past
        b"\x01\x04\x00\xc8\x00\x00",  # a flag nobody knows
        b"\x01\x00\x00\xc8\x00\x00\x00",  # one byte too many
        b"\x01\x00\x00\xc8\x00\x05abc",  # a body shorter than its length
        b"\x01\x00\x00\xc8\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # endless length
        b"\x01\x00\x00\xc8\x80",  # a length that stops in the middle
        b"\x01\x00",
        b"\x01",
        b"",
    ],
)
def test_a_sealed_receipt_that_makes_no_sense_is_refused(content: bytes) -> None:
    with pytest.raises(ReceiptCorrupt):
        decode_receipt(PRINT, _sealed(content))


def test_the_first_version_of_the_binary_form_stays_readable() -> None:
    data = _sealed(b"\x01\x01\x01\x9b\x01\x01a\x02bc\x00")

    assert decode_receipt(PRINT, data) == Receipt(
        PRINT, Response(411, ((b"a", b"bc"),), b""), tombstone=True
    )


@given(st.binary(max_size=80))
def test_no_bytes_make_the_decoder_fail_otherwise(content: bytes) -> None:
    for data in (content, _sealed(content)):
        with contextlib.suppress(ReceiptCorrupt):
            decode_receipt(PRINT, data)


DROPPED: Headers = (
    (b"connection", b"keep-alive, X-Mine"),
    (b"connection", b"x-other"),
    (b"keep-alive", b"timeout=5"),
    (b"te", b"trailers"),
    (b"trailer", b"expires"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"h2c"),
    (b"proxy-authenticate", b"Basic"),
    (b"proxy-connection", b"keep-alive"),
    (b"x-mine", b"1"),
    (b"x-other", b"2"),
    (b"set-cookie", b"a=1"),
    (b"set-cookie", b"b=2"),
    (b"www-authenticate", b"Bearer"),
    (b"date", b"Mon, 30 Nov 2026 00:00:00 GMT"),
    (b"content-length", b"2"),
    (b"x-request-id", b"r-1"),
    (b"traceparent", b"00-1"),
    (b"idempotent-replayed", b"true"),
)
KEPT: Headers = (
    (b"content-type", b"application/json"),
    (b"location", b"/payments/1"),
    (b"etag", b'W/"1"'),
    (b"link", b'<a>; rel="next"'),
    (b"link", b'<b>; rel="prev"'),
    (b"vary", b"accept, origin"),
    (b"content-disposition", b'attachment; filename="a,b.txt"'),
    (b"content-language", b"de"),
    (b"content-encoding", b"gzip"),
    (b"x-latin", b"caf\xe9"),
    (b"x-empty", b""),
    (b"retry-after", b"5"),
    (b"access-control-allow-origin", b"*"),
)


def test_headers_of_one_message_go_and_all_others_stay_as_they_are() -> None:
    mixed = tuple(pair for both in zip(KEPT, DROPPED, strict=False) for pair in both)
    rest = (*KEPT[len(mixed) // 2 :], *DROPPED[len(mixed) // 2 :])

    kept = keep(PRINT, Response(201, (*mixed, *rest), b"{}"))

    assert kept == Receipt(PRINT, Response(201, KEPT, b"{}"))


def test_the_lines_of_a_header_are_found_in_order() -> None:
    assert get_all(KEPT, b"link") == [b'<a>; rel="next"', b'<b>; rel="prev"']
    assert get_first(KEPT, b"link") == b'<a>; rel="next"'
    assert (get_all(KEPT, b"none"), get_first(KEPT, b"none")) == ([], None)
