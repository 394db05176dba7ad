"""The stored form of a receipt: exact, or ReceiptCorrupt, whatever happened to its bytes."""

from __future__ import annotations

import zlib
from typing import Final

from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.message import Response
from replayfloor.core.receipt import (
    VERSION,
    Receipt,
    decode_content,
    decode_receipt,
    encode_receipt,
)

PRINT: Final = Fingerprint(bytes(range(DIGEST_BYTES)))
CHECK_BYTES: Final = 4


def check(data: bytes) -> None:
    """Take the input as stored bytes, as a receipt to be damaged, and as deciphered content."""
    _check_stored(data)
    _check_stored(data + zlib.crc32(data).to_bytes(CHECK_BYTES, "big"))
    _check_content(data)
    if len(data) >= 8:
        _check_damage(_receipt(data[8:]), data[:8])


def _check_stored(data: bytes) -> None:
    receipt = _decoded(data)
    if receipt is None:
        return
    assert data[0] == VERSION, "no other version is read as ours"
    assert receipt.fingerprint == PRINT
    assert _size(receipt.response) <= len(data), "nothing is made that is not there"
    assert data[:-CHECK_BYTES].endswith(receipt.response.body), "nothing is left over"
    assert _decoded(encode_receipt(receipt)) == receipt


def _check_content(data: bytes) -> None:
    try:
        response = decode_content(200, data)
    except ReceiptCorrupt:
        return
    assert _size(response) <= len(data)


def _check_damage(receipt: Receipt, how: bytes) -> None:
    """Damage a receipt in each way that storage damages things; all of it must be noticed."""
    stored = encode_receipt(receipt)
    assert _decoded(stored) == receipt
    place = int.from_bytes(how[:2], "big") % len(stored)
    flipped = bytearray(stored)
    flipped[place] ^= 1 << how[2] % 8
    assert _decoded(bytes(flipped)) is None, "one bit"
    assert _decoded(stored[:place]) is None, "cut short"
    assert _decoded(stored + how[2:4]) is None, "with more behind it"
    # CRC-32 notices every burst of up to 32 bits within what it covers (and within itself).
    content = len(stored) - CHECK_BYTES
    start = place % (content - CHECK_BYTES + 1) if content >= CHECK_BYTES else content
    burst = bytearray(stored)
    for offset, mask in enumerate(how[4:8]):
        burst[start + offset] ^= mask
    assert any(how[4:8]) is (_decoded(bytes(burst)) is None), "a burst"


def _receipt(data: bytes) -> Receipt:
    """Make a receipt of some bytes: status and flags, headers between NULs, and the body."""
    status = 100 + (data[0] * 2 if data else 100)
    *fields, body = data[1:].split(b"\0")
    headers = tuple((field[:3], field[3:]) for field in fields)
    flags = data[0] if data else 0
    return Receipt(PRINT, Response(status, headers, body), bool(flags & 1), bool(flags & 2))


def _decoded(data: bytes) -> Receipt | None:
    try:
        return decode_receipt(PRINT, data)
    except ReceiptCorrupt as refused:
        message = str(refused)
    assert message, "it says what is wrong"
    return None


def _size(response: Response) -> int:
    return sum(len(name) + len(value) for name, value in response.headers) + len(response.body)
