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
from typing import NewType

ReceiptId = NewType("ReceiptId", bytes)
"""16 bytes: which operation. The raw key and the principal cannot be read back from it."""

Fingerprint = NewType("Fingerprint", bytes)
"""16 bytes: which request (draft -07, 2.4). 11 of the whole, then one of each of PARTS."""

PARTS = ("method", "path", "query", "content type", "body")
"""What a fingerprint is made of, in the order of its last five bytes."""

DIGEST_BYTES = 16

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
    parts = (_REQUEST_LABEL, method.upper().encode(), path, query, media_type, body)
    each = b"".join(_digest((part,))[:1] for part in parts[1:])
    return Fingerprint(_digest(parts)[: DIGEST_BYTES - len(PARTS)] + each)


def media_type_of(content_type: bytes) -> bytes:
    """Return the media type of a Content-Type value in lower case, without its parameters."""
    return content_type.partition(b";")[0].strip().lower()


def differing_parts(first: Fingerprint, second: Fingerprint) -> tuple[str, ...]:
    """Return which of PARTS differ between two requests, as far as 8 bits of each can tell.

    Empty for equal fingerprints; and, once in 256 times, for one part that differs.
    """
    pairs = zip(PARTS, first[-len(PARTS) :], second[-len(PARTS) :], strict=True)
    return tuple(name for name, one, other in pairs if one != other)


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()[:DIGEST_BYTES]
