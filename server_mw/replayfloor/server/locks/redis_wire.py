"""What both colours of the lock in Redis say and understand: keys, scripts, arguments, answers.

Pure: no client, no connection, no clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Cached,
    Extend,
    Held,
    LockAnswer,
    LockUnavailable,
    Release,
)
from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load

CACHED_BYTES_MAX = 64 * 1024
"""Receipts above this are not kept in the lock's place: they come from Postgres, and a memory full
of large answers would push out the locks."""

KEY_PREFIX = "replayfloor:"

Arguments = tuple[bytes | int, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, and the name under which a server remembers it once it has seen it."""

    text: str
    sha: str


def _script(name: str) -> Script:
    text = load(name)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


ACQUIRE = _script("lua/acquire.lua")
EXTEND = _script("lua/extend.lua")
RELEASE = _script("lua/release.lua")


def key_of(id_: ReceiptId) -> str:
    """Return the only key that an operation on this lock touches."""
    return KEY_PREFIX + id_.hex()


def acquire_arguments(acquire: Acquire) -> Arguments:
    """Return what acquire.lua takes."""
    return (acquire.fence, acquire.fingerprint, acquire.lease_ms)


def extend_arguments(extend: Extend) -> Arguments:
    """Return what extend.lua takes."""
    return (extend.fence, extend.lease_ms)


def release_arguments(release: Release) -> Arguments:
    """Return what release.lua takes: without a receipt if it is not to be kept, or too large."""
    kept = b""
    if release.receipt is not None and release.keep_ms > 0:
        kept = release.receipt.fingerprint + encode_receipt(release.receipt)
        kept = kept if len(kept) <= CACHED_BYTES_MAX else b""
    return (release.fence, kept, release.keep_ms)


def decode(answer: object) -> LockAnswer:
    """Return what acquire.lua has answered; None stands for no answer.

    A damaged value counts as no lock: the truth is in Postgres.
    """
    match answer:
        case [b"acquired"]:
            return Acquired()
        case [b"held", bytes(fingerprint), int(left_ms)]:
            return Held(Fingerprint(fingerprint), max(1, left_ms))
        case [b"cached", bytes(fingerprint), bytes(receipt)]:
            try:
                return Cached(decode_receipt(fingerprint, receipt))
            except ReceiptCorrupt:
                return LockUnavailable()
        case _:
            return LockUnavailable()
