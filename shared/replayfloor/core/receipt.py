"""The receipt: what is kept of an answer, and its versioned binary form.

What is kept is what a replay shows: status, body and headers, byte for byte, without the headers
that belong to one message or one browser. A tombstone says that an answer was given whose body
was not kept. A sealed receipt holds its headers and body enciphered, as its body.
"""

from __future__ import annotations

import zlib
from dataclasses import field

from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.message import Headers, Response, get_all
from replayfloor.core.values import frozen

VERSION = 1
_TOMBSTONE = 0x01
_SEALED = 0x02
_CHECK_BYTES = 4
_FIXED_BYTES = 4
"""Version, flags and status, ahead of the content."""

HOP_BY_HOP = frozenset(
    b"connection keep-alive te trailer transfer-encoding upgrade proxy-authenticate "
    b"proxy-authorization proxy-connection".split()
)
"""Fields of one connection, never stored (RFC 9110, 7.6.1)."""

PER_MESSAGE = frozenset(
    b"date content-length set-cookie www-authenticate authentication-info age "
    b"x-request-id x-correlation-id traceparent tracestate server-timing "
    b"idempotent-replayed idempotency-key-lifetime".split()
)
"""Fields of one message, client or moment. Date is made anew by the server (RFC 9110, 6.6.1),
Content-Length by us; a cookie or a challenge of the first caller is not the second's."""


_DROPPED = HOP_BY_HOP | PER_MESSAGE


@frozen
class Receipt:
    """The durable record of a finished key: which request it was, and what was answered.

    `tombstone` means that the body was not kept (too large, endless, or secret): `response.body`
    is then empty and must not be shown as an answer. `sealed` means that `response.body` is what
    `encode_content` gave, enciphered; `response` is not the answer before it has been opened.
    """

    fingerprint: Fingerprint
    response: Response
    tombstone: bool = False
    sealed: bool = False
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The binary form, once it was asked for: the receipts' store and the lock both want it."""


def keep(
    fingerprint: Fingerprint,
    response: Response,
    *,
    tombstone: bool = False,
    sensitive: bool = False,
) -> Receipt:
    """Make the receipt of an answer: drop the headers that no later message may carry.

    Of a `sensitive` answer only the status and the Location are kept: a header may hold a secret
    as well as a body, and the address is where its owner finds the result.
    """
    if sensitive:
        tombstone = True
        headers = tuple(pair for pair in response.headers if pair[0].lower() == b"location")
    else:
        named = _named_by_connection(response.headers)
        dropped = _DROPPED | named if named else _DROPPED
        headers = tuple([pair for pair in response.headers if pair[0].lower() not in dropped])
    body = b"" if tombstone else response.body
    return Receipt(fingerprint, Response(response.status, headers, body), tombstone)


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    values = get_all(headers, b"connection")
    if not values:
        return frozenset()
    return frozenset(name.strip().lower() for value in values for name in value.split(b","))


def encode_receipt(receipt: Receipt) -> bytes:
    """Return the binary form, without the fingerprint (stores keep that beside it).

    version u8, flags u8, status u16, number of headers, then name and value of each, then the
    body (all counted by LEB128 varints), then a CRC-32 of everything before it.
    """
    if receipt.encoded is not None:
        return receipt.encoded
    response = receipt.response
    flags = (_TOMBSTONE if receipt.tombstone else 0) | (_SEALED if receipt.sealed else 0)
    fixed = bytes((VERSION, flags)) + response.status.to_bytes(2, "big")
    content = fixed + encode_content(response)
    encoded = content + zlib.crc32(content).to_bytes(_CHECK_BYTES, "big")
    # No value of the receipt changes: what is kept is only what would be made again.
    object.__setattr__(receipt, "encoded", encoded)
    return encoded


def encode_content(response: Response) -> bytes:
    """Return headers and body in the binary form: all of an answer but its status."""
    out = [_varint(len(response.headers))]
    for name, value in response.headers:
        out += (_varint(len(name)), name, _varint(len(value)), value)
    if response.body:  # else nothing: the byte would make the smallest row 8 bytes larger
        out += (_varint(len(response.body)), response.body)
    return b"".join(out)


def decode_content(status: int, data: bytes) -> Response:
    """Return the answer whose headers and body are in `data`. Raises ReceiptCorrupt."""
    count, at = _read_varint(data, 0)
    headers: list[tuple[bytes, bytes]] = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers.append((name, value))
    body = b""
    if at < len(data):
        body, at = _read_bytes(data, at)
    if at < len(data):
        raise ReceiptCorrupt(f"{len(data) - at} bytes follow the receipt")
    return Response(status, tuple(headers), body)


def decode_receipt(fingerprint: bytes, data: bytes) -> Receipt:
    """Return the receipt behind its binary form.

    Raises ReceiptCorrupt if a byte is missing, altered or too many, or the version is unknown: a
    wrong answer is worse than none.
    """
    if len(fingerprint) != DIGEST_BYTES:
        raise ReceiptCorrupt("a fingerprint has 16 bytes")
    content, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if zlib.crc32(content).to_bytes(_CHECK_BYTES, "big") != check:
        raise ReceiptCorrupt("the receipt is truncated or altered: its checksum differs")
    if len(content) < _FIXED_BYTES:
        raise ReceiptCorrupt("the receipt ends too early")
    version, flags = content[0], content[1]
    if version != VERSION or flags & ~(_TOMBSTONE | _SEALED):
        raise ReceiptCorrupt(f"receipt version {version} (flags {flags}) is not known here")
    status = content[2] << 8 | content[3]
    response = decode_content(status, content[_FIXED_BYTES:])
    return Receipt(
        Fingerprint(fingerprint), response, bool(flags & _TOMBSTONE), bool(flags & _SEALED)
    )


def _varint(number: int) -> bytes:
    if number < len(_ONE_BYTE):
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Return what is counted by the varint at a place, and the place behind it."""
    if at < len(data) and data[at] <= 0x7F:  # as nearly all of them
        count, at = data[at], at + 1
    else:
        count, at = _read_varint(data, at)
    end = at + count
    if end > len(data):
        raise ReceiptCorrupt("the receipt ends too early")
    return data[at:end], end


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ReceiptCorrupt("a length of the receipt has too many digits")
    raise ReceiptCorrupt("the receipt ends too early")
