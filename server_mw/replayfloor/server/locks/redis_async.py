"""A lock in Redis or Valkey: one Lua script each way, one round trip, a short timeout.

Nothing here may fail a request: a lock that does not answer is an answer (LockUnavailable).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

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
from replayfloor.core.errors import ConfigurationError, ReceiptCorrupt
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load

LOCK_S = 0.5
"""How long the lock is waited for. It answers in well under a millisecond; what takes longer is
an outage, and Postgres alone is enough then."""

CACHED_BYTES_MAX = 64 * 1024
"""Receipts above this are not kept in the lock's place: they come from Postgres, and a memory full
of large answers would push out the locks."""

KEY_PREFIX = "replayfloor:"


class AsyncRedisLock:
    """Locks, and for a while the receipts of finished keys, in Redis.

    Args:
        client: a URL (`redis://…`, `rediss://…`, `unix://…`) or a `redis.asyncio.Redis` that
            returns bytes; a client that was passed in is not closed by `close`.
    """

    def __init__(self, client: str | Redis) -> None:
        """Check the option; connect nothing. Raises ConfigurationError."""
        self._owned = isinstance(client, str)
        try:
            self._redis = _from_url(client) if isinstance(client, str) else client
        except ValueError:
            # Without the cause: it may repeat the text, which may hold a password.
            raise ConfigurationError("not a valid Redis URL: redis://host:port/db") from None
        self._acquire = self._redis.register_script(load("lua/acquire.lua"))
        self._extend = self._redis.register_script(load("lua/extend.lua"))
        self._release = self._redis.register_script(load("lua/release.lua"))

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        arguments = (acquire.fence, acquire.fingerprint, acquire.lease_ms)
        try:
            answer = await self._acquire(keys=(_key(acquire.id),), args=arguments)
            return _decode(cast("list[bytes | int]", answer))
        except (RedisError, OSError, ReceiptCorrupt):
            # A damaged value counts as an outage: the truth is in Postgres.
            return LockUnavailable()

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        kept = b""
        if release.receipt is not None and release.keep_ms > 0:
            kept = release.receipt.fingerprint + encode_receipt(release.receipt)
            kept = kept if len(kept) <= CACHED_BYTES_MAX else b""
        arguments = (release.fence, kept, release.keep_ms)
        try:
            ended: object = await self._release(keys=(_key(release.id),), args=arguments)
        except (RedisError, OSError):
            return False
        return ended == 1

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        arguments = (extend.fence, extend.lease_ms)
        try:
            extended: object = await self._extend(keys=(_key(extend.id),), args=arguments)
        except (RedisError, OSError):
            return False
        return extended == 1

    async def close(self) -> None:
        """Close the connections of a client made from a URL."""
        if self._owned:
            await cast("Awaitable[None]", self._redis.aclose())


def _from_url(url: str) -> Redis:
    # One retry, at once: a connection that a restarted server has closed fails on first use.
    # Both scripts may run twice: they recognise their own fence.
    return Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - untyped **kwargs there
        url,
        socket_timeout=LOCK_S,
        socket_connect_timeout=LOCK_S,
        retry=Retry(NoBackoff(), 1),
        decode_responses=False,
    )


def _key(id_: bytes) -> str:
    return KEY_PREFIX + id_.hex()


def _decode(answer: list[bytes | int]) -> LockAnswer:
    match answer:
        case [b"acquired"]:
            return Acquired()
        case [b"held", bytes(fingerprint), int(left_ms)]:
            return Held(Fingerprint(fingerprint), max(1, left_ms))
        case [b"cached", bytes(fingerprint), bytes(receipt)]:
            return Cached(decode_receipt(fingerprint, receipt))
        case _:
            return LockUnavailable()
