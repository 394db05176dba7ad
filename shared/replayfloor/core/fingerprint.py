"""Digests that identify: the receipt of a key, and the request behind it.

Both have 128 bits, because they are stored as `uuid`, and come from SHA-256 over length-prefixed
parts: "ab" + "c" must differ from "a" + "bc". A leading label keeps digests of two kinds apart.

The fingerprint is 88 bits over the whole request and then 8 bits of each part, so that a refusal
can say which part differs without the first request being kept. 88 bits are ample: fingerprints
are compared within one key of one principal only, and who makes two requests of their own collide
gains a replay of their own answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Final, NewType

ReceiptId = NewType("ReceiptId", bytes)
"""16 bytes: which operation. The raw key and the principal cannot be read back from it."""

Fingerprint = NewType("Fingerprint", bytes)
"""16 bytes: which request (draft -07, 2.4). 11 of the whole, then one of each of PARTS."""

PARTS = ("method", "path", "query", "content type", "body")
"""What a fingerprint is made of, in the order of its last five bytes."""

DIGEST_BYTES = 16

TARGETS_KNOWN_MAX = 1024
"""Heads of requests (method, path, query and media type) whose part of the digest is remembered:
those of one application."""

TARGET_KNOWN_BYTES_MAX = 512
"""Longer ones are not remembered: few come again, and all together take 1 MiB at most."""

NAMESPACES_KNOWN_MAX = 256
"""Namespaces, each of which comes with every request: one for each application or webhook."""

_RECEIPT_LABEL = b"replayfloor receipt 1"
_REQUEST_LABEL = b"replayfloor request 1"

_COUNT_BYTES: Final = 8
_COMMON: Final = b"application/json"


def receipt_id(namespace: str, principal: str | None, key: str) -> ReceiptId:
    """Return the id of the receipt of a key within its owner's scope (draft -07, section 5).

    The principal None ("one tenant") differs from every string, the empty one included.
    """
    owner = b"-" if principal is None else b"+" + principal.encode("utf-8", "surrogatepass")
    written = key.encode()
    counts = len(owner).to_bytes(_COUNT_BYTES, "big"), len(written).to_bytes(_COUNT_BYTES, "big")
    scope = _scope(namespace) + counts[0] + owner + counts[1] + written
    return ReceiptId(sha256(scope).digest()[:DIGEST_BYTES])


def fingerprint(
    *, method: str, path: bytes, query: bytes, content_type: bytes, body: bytes
) -> Fingerprint:
    """Return the digest of everything that makes a request the same request.

    `path` and `query` are the raw bytes of the target; of `content_type` only the media type
    counts, in any letter case: a boundary or charset parameter may differ between two sends.
    `body` is the body or what stands for it, such as a digest of one that is never whole in
    memory; only fingerprints whose bodies were taken in the same way can be compared.
    """
    length = len(method) + len(path) + len(query) + len(content_type)
    short = length <= TARGET_KNOWN_BYTES_MAX
    head, each = (_known if short else _digested)(method, path, query, content_type)
    counted = len(body).to_bytes(_COUNT_BYTES, "big") + body
    whole = sha256(head + counted).digest()[: DIGEST_BYTES - len(PARTS)]
    return Fingerprint(whole + each + sha256(counted).digest()[:1])


def media_type_of(content_type: bytes) -> bytes:
    """Return the media type of a Content-Type value in lower case, without its parameters."""
    if content_type == _COMMON:
        return _COMMON
    return content_type.partition(b";")[0].strip().lower()


def differing_parts(first: Fingerprint, second: Fingerprint) -> tuple[str, ...]:
    """Return which of PARTS differ between two requests, as far as 8 bits of each can tell.

    Empty for equal fingerprints; and, once in 256 times, for one part that differs.
    """
    pairs = zip(PARTS, first[-len(PARTS) :], second[-len(PARTS) :], strict=True)
    return tuple(name for name, one, other in pairs if one != other)


@lru_cache(NAMESPACES_KNOWN_MAX)
def _scope(namespace: str) -> bytes:
    return _counted((_RECEIPT_LABEL, namespace.encode()))


def _digested(method: str, path: bytes, query: bytes, content_type: bytes) -> tuple[bytes, bytes]:
    """Return what is hashed before the body, and the one byte of each of these parts."""
    parts = (method.upper().encode(), path, query, media_type_of(content_type))
    return _counted((_REQUEST_LABEL, *parts)), b"".join([_digest((part,))[:1] for part in parts])


_known = lru_cache(TARGETS_KNOWN_MAX)(_digested)


def _digest(parts: Iterable[bytes]) -> bytes:
    return sha256(_counted(parts)).digest()[:DIGEST_BYTES]


def _counted(parts: Iterable[bytes]) -> bytes:
    return b"".join([len(part).to_bytes(_COUNT_BYTES, "big") + part for part in parts])
