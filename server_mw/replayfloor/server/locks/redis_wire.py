"""What both colours of the lock in Redis say and understand: keys, scripts, arguments, answers.

Pure: no client, no connection, no clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never, cast

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
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint, ReceiptId
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load

CACHED_BYTES_MAX = 64 * 1024
"""Receipts above this are not kept in the lock's place: they come from Postgres, and a memory full
of large answers would push out the locks."""

KEY_PREFIX = "replayfloor:"

ENTRIES_MAX: Final = 128
"""Operations of one script call. Redis does nothing else meanwhile, for some tenths of a ms."""

Arguments = tuple[bytes | int, ...]

Operation: TypeAlias = Acquire | Release | Extend

OperationAnswer: TypeAlias = LockAnswer | bool


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, and the name under which a server remembers it once it has seen it."""

    text: str
    sha: str


def _script(name: str) -> Script:
    text = load(name)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


ACQUIRE = _script("lua/acquire.lua")
BATCH = _script("lua/batch.lua")
EXTEND = _script("lua/extend.lua")
RELEASE = _script("lua/release.lua")


_WIRE_HEAD: Final = b"*%%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$%%d\r\n%%b\r\n" % BATCH.sha.encode()
_WIRE_ARGUMENTS: Final = b"$1\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"


_WIRE_KEY: Final = f"${len(KEY_PREFIX) + 2 * DIGEST_BYTES}\r\n{KEY_PREFIX}"


def key_of(id_: ReceiptId) -> str:
    """Return the only key that an operation on this lock touches."""
    return KEY_PREFIX + id_.hex()


def acquire_arguments(acquire: Acquire) -> tuple[bytes, bytes, int]:
    """Return what acquire.lua takes."""
    return (acquire.fence, acquire.fingerprint, acquire.lease_ms)


def extend_arguments(extend: Extend) -> Arguments:
    """Return what extend.lua takes."""
    return (extend.fence, extend.lease_ms)


def release_arguments(release: Release) -> tuple[bytes, bytes, int]:
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
            return _cached(fingerprint, receipt)
        case _:
            return LockUnavailable()


def batch_arguments(operations: Sequence[Operation]) -> list[bytes | str | int]:
    """Return what batch.lua takes: the keys, and then four arguments for each operation."""
    arguments: list[bytes | str | int] = [key_of(operation.id) for operation in operations]
    for operation in operations:
        arguments += _letter_and_arguments(operation)
    return arguments


def _letter_and_arguments(operation: Operation) -> tuple[bytes, bytes, bytes, int]:
    match operation:
        case Acquire():
            return (b"a", *acquire_arguments(operation))
        case Release():
            return (b"r", *release_arguments(operation))
        case Extend(_id, fence, lease_ms):
            return (b"e", fence, b"", lease_ms)
        case _:
            assert_never(operation)


def batch_command(operations: Sequence[Operation]) -> bytes:
    """Return the bytes of EVALSHA of batch.lua as they go over the wire (RESP2).

    A client that packs arguments of any kind takes most of a batch's time for that; here nearly
    all are of known length.
    """
    count = len(operations)
    head = _WIRE_HEAD % (3 + 5 * count, len(str(count)), str(count).encode())
    keys = "".join([f"{_WIRE_KEY}{operation.id.hex()}\r\n" for operation in operations])
    pieces = [head, keys.encode()]
    for letter, fence, what, number in map(_letter_and_arguments, operations):
        ms = b"%d" % number
        pieces.append(_WIRE_ARGUMENTS % (letter, len(fence), fence, len(what), what, len(ms), ms))
    return b"".join(pieces)


def unanswered(operations: Sequence[Operation]) -> list[OperationAnswer]:
    """Return the answers of a lock that gave none."""
    return [
        LockUnavailable() if isinstance(operation, Acquire) else False for operation in operations
    ]


def decode_batch(operations: Sequence[Operation], answer: object) -> list[OperationAnswer]:
    """Return what batch.lua has answered to each operation; None stands for no answer."""
    if not isinstance(answer, list) or not answer:
        return unanswered(operations)
    letters, *more = cast("list[object]", answer)
    if not isinstance(letters, bytes) or len(letters) != len(operations):
        return unanswered(operations)
    values = iter(more)
    return [_ACQUIRED if letter == _A else _decode_letter(letter, values) for letter in letters]


def _decode_letter(letter: int, values: Iterator[object]) -> OperationAnswer:
    match letter:
        case 0x31:  # 1
            return True
        case 0x30:  # 0
            return False
        case 0x48:  # H
            fingerprint, left_ms = next(values), next(values)
            if isinstance(fingerprint, bytes) and isinstance(left_ms, int):
                return Held(Fingerprint(fingerprint), max(1, left_ms))
            return LockUnavailable()
        case 0x43:  # C
            kept = cast("bytes", next(values))
            return _cached(kept[:DIGEST_BYTES], kept[DIGEST_BYTES:])
        case _:
            return LockUnavailable()


def _cached(fingerprint: bytes, receipt: bytes) -> LockAnswer:
    try:
        return Cached(decode_receipt(fingerprint, receipt))
    except ReceiptCorrupt:
        return LockUnavailable()


_A: Final = 0x41
_ACQUIRED: Final = Acquired()
