"""The bytes that stand for a body in the fingerprint: 32 of them, whatever the body's size.

Which ones is decided by the route's rule, the media type and the body alone, never by how the body
arrived or where it is kept: a retry may come in other pieces, to a server with other limits. The
first byte that is hashed says how the body was read, so that one kind is never taken for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, Final, cast

from replayfloor.core.canonical import CANONICAL_BYTES_MAX, canonical_body
from replayfloor.core.errors import UsageError
from replayfloor.server.body_multipart import parts_hash
from replayfloor.server.body_rules import BodyFingerprint, BodyRule, FingerprintRequest
from replayfloor.server.body_target import RequestHead

CHUNK_BYTES: Final = 64 * 1024
"""Bytes of a file in memory at a time: as many as servers read from a connection at a time."""

_NOTHING: Final = hashlib.sha256(b"-").digest()


def body_digest(head: RequestHead, rule: BodyRule, body: bytes) -> bytes:
    """Return the digest of a body that is whole in memory.

    By meaning: JSON and form fields as `canonical_body` has it, multipart as PartsHash has it.
    Raises UsageError if the rule's function returns no bytes, and what the function raises.
    """
    if not rule.counts:
        return _NOTHING
    if rule.function is not None:
        return _by_function(rule.function, head, body)
    parts = parts_hash(head.content_type, rule.exclude)
    if parts is not None:
        parts.update(body)
        digest = parts.digest()
        if digest is not None:
            return digest
    return hashlib.sha256(canonical_body(head.content_type, body, rule.exclude)).digest()


class ArrivingBody:
    """Hashes a body that is written to a file as it arrives.

    Up to CANONICAL_BYTES_MAX it is read back and taken by meaning. What is larger is taken byte
    for byte, but for multipart, whose parts are hashed as they pass.
    """

    __slots__ = ("_head", "_parts", "_raw", "_rule")

    def __init__(self, head: RequestHead, rule: BodyRule) -> None:
        """Belong to one request."""
        self._head, self._rule = head, rule
        by_meaning = rule.counts and rule.function is None
        self._parts = parts_hash(head.content_type, rule.exclude) if by_meaning else None
        self._raw = hashlib.sha256(b"r") if by_meaning and self._parts is None else None

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._parts is not None:
            self._parts.update(chunk)
        elif self._raw is not None:
            self._raw.update(chunk)

    def digest(self, file: IO[bytes], size: int) -> bytes:
        """Return what `body_digest` returns for the body, which is in the file.

        A `fingerprint=` function has it whole in memory meanwhile.
        """
        if size <= CANONICAL_BYTES_MAX or self._rule.function is not None:
            file.seek(0)
            return body_digest(self._head, self._rule, file.read())
        if self._raw is not None:
            return self._raw.digest()
        if self._parts is None:
            return _NOTHING
        digest = self._parts.digest()
        return _raw_digest(file) if digest is None else digest


def file_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Return a file from its beginning, in pieces of at most CHUNK_BYTES.

    Other readers of the file may move its position between two pieces.
    """
    position = 0
    file.seek(position)
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
        position += len(chunk)
        file.seek(position)


def _raw_digest(file: IO[bytes]) -> bytes:
    raw = hashlib.sha256(b"r")
    for chunk in file_chunks(file):
        raw.update(chunk)
    return raw.digest()


def _by_function(function: BodyFingerprint, head: RequestHead, body: bytes) -> bytes:
    request = FingerprintRequest(
        head.method, head.path, head.query, head.content_type, head.headers, body
    )
    stands = cast("object", function(request))
    if not isinstance(stands, bytes):
        raise UsageError(
            f"the route's fingerprint function returned {type(stands).__name__}; it must return "
            "the bytes that stand for the body"
        )
    return hashlib.sha256(b"f" + stands).digest()
