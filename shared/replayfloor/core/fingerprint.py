"""Digests that identify: the receipt of a key, and the request behind it.

Both have 128 bits, because they are stored as `uuid`, and come from SHA-256 over length-prefixed
parts: "ab" + "c" must differ from "a" + "bc". A leading label keeps digests of two kinds apart.

The fingerprint is 88 bits over the whole request and then 8 bits of each part, so that a refusal
can say which part differs without the first request being kept. 88 bits are ample: fingerprints
are compared within one key of one principal only, and who makes two requests of their own collide
gains a replay of their own answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import NewType

ReceiptId = NewType("ReceiptId", bytes)
"""16 bytes: which operation. The raw key and the principal cannot be read back from it."""

Fingerprint = NewType("Fingerprint", bytes)
"""16 bytes: which request (draft -07, 2.4). 11 of the whole, then one of each of PARTS."""

PARTS = ("method", "path", "query", "content type", "body")
"""What a fingerprint is made of, in the order of its last five bytes."""

DIGEST_BYTES = 16

PARTS_KNOWN_MAX = 1024
"""Methods, paths, queries and media types whose digest is remembered: those of one application."""

PART_KNOWN_BYTES_MAX = 256
"""Longer ones are not remembered: few come again, and all together take 256 KiB at most."""

_RECEIPT_LABEL = b"replayfloor receipt 1"
_REQUEST_LABEL = b"replayfloor request 1"


def receipt_id(namespace: str, principal: str | None, key: str) -> ReceiptId:
    """Return the id of the receipt of a key within its owner's scope (draft -07, section 5).

    The principal None ("one tenant") differs from every string, the empty one included.
    """
    owner = b"-" if principal is None else b"+" + principal.encode("utf-8", "surrogatepass")
    parts = (_RECEIPT_LABEL, namespace.encode(), owner, key.encode())
    return ReceiptId(_digest(parts))


def fingerprint(
    *, method: str, path: bytes, query: bytes, content_type: bytes, body: bytes
) -> Fingerprint:
    """Return the digest of everything that makes a request the same request.

    `path` and `query` are the raw bytes of the target; of `content_type` only the media type
    counts, in any letter case: a boundary or charset parameter may differ between two sends.
    `body` is the body or what stands for it, such as a digest of one that is never whole in
    memory; only fingerprints whose bodies were taken in the same way can be compared.
    """
    media_type = media_type_of(content_type)
    written = method.upper().encode()
    whole = _digest((_REQUEST_LABEL, written, path, query, media_type, body))
    each = _byte_of(written) + _byte_of(path) + _byte_of(query) + _byte_of(media_type)
    return Fingerprint(whole[: DIGEST_BYTES - len(PARTS)] + each + _digest((body,))[:1])


def media_type_of(content_type: bytes) -> bytes:
    """Return the media type of a Content-Type value in lower case, without its parameters."""
    return content_type.partition(b";")[0].strip().lower()


def differing_parts(first: Fingerprint, second: Fingerprint) -> tuple[str, ...]:
    """Return which of PARTS differ between two requests, as far as 8 bits of each can tell.

    Empty for equal fingerprints; and, once in 256 times, for one part that differs.
    """
    pairs = zip(PARTS, first[-len(PARTS) :], second[-len(PARTS) :], strict=True)
    return tuple(name for name, one, other in pairs if one != other)


def _byte_of(part: bytes) -> bytes:
    return _known(part) if len(part) <= PART_KNOWN_BYTES_MAX else _digest((part,))[:1]


@lru_cache(PARTS_KNOWN_MAX)
def _known(part: bytes) -> bytes:
    return _digest((part,))[:1]


def _digest(parts: Iterable[bytes]) -> bytes:
    joined = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
    return hashlib.sha256(joined).digest()[:DIGEST_BYTES]
