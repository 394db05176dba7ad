"""A lock in Redis or Valkey for ASGI: one Lua script each way, one round trip, a short timeout.

Nothing here may fail a request: a lock that does not answer is an answer (LockUnavailable).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from redis.asyncio import Redis, RedisCluster

from replayfloor.core.claims import Acquire, Extend, LockAnswer, Release
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks.circuit import OPEN_S, CircuitBreakerError, Circuits
from replayfloor.server.locks.redis_failure import FORESEEN
from replayfloor.server.locks.redis_limits import LOCK_S, ROUND_TRIPS_MAX
from replayfloor.server.locks.redis_open_async import connect
from replayfloor.server.locks.redis_wire import (
    ACQUIRE,
    EXTEND,
    RELEASE,
    Arguments,
    Script,
    acquire_arguments,
    decode,
    extend_arguments,
    key_of,
    release_arguments,
)

log = logging.getLogger("replayfloor.server")


class AsyncRedisLock:
    """Locks, and for a while the receipts of finished keys, in Redis.

    The first operation that fails for the server's sake makes the lock answer LockUnavailable at
    once for `open_s`; then one operation tries again. In a cluster, this is per server.

    Args:
        client: a URL (see `redis_url.py` for its forms), or a `redis.asyncio.Redis` (also one of
            `Sentinel.master_for`) or `redis.asyncio.RedisCluster` that returns bytes. One that
            was passed in is not closed by `close` (but its idle connections are, after a
            failure).
        timeout_s: how long one operation may take, all in all.
        open_s: how long a server that failed is not asked.
        clock: seconds of a clock that is never set back.
    """

    def __init__(
        self,
        client: str | Redis | RedisCluster,
        *,
        timeout_s: float = LOCK_S,
        open_s: float = OPEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the option; connect nothing. Raises ConfigurationError."""
        self._client = connect(client, timeout_s)
        self._timeout_s = timeout_s
        self._circuits = Circuits(open_s, clock)
        self._turns = asyncio.Semaphore(ROUND_TRIPS_MAX)

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        return decode(await self._run(ACQUIRE, acquire.id, acquire_arguments(acquire)))

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        return await self._run(RELEASE, release.id, release_arguments(release)) == 1

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return await self._run(EXTEND, extend.id, extend_arguments(extend)) == 1

    async def close(self) -> None:
        """Close the connections of a client made from a URL."""
        await self._client.close()

    async def _run(self, script: Script, id_: ReceiptId, arguments: Arguments) -> object:
        """Return the script's answer, or None if there is none."""
        key = key_of(id_)
        try:
            circuit = self._circuits.of(self._client.server_of(key))
            with circuit.attempt() as is_probe:
                async with asyncio.timeout(self._timeout_s), self._turns:
                    if is_probe:
                        await self._client.forget_idle()
                    return await self._client.run(script, key, arguments)
        except CircuitBreakerError:
            return None
        except FORESEEN:
            return None
        except Exception:
            log.exception("the lock in Redis failed in a way that was not foreseen")
            return None
