"""A lock in Redis or Valkey for ASGI: one Lua script, one round trip, a short timeout.

What arrives while a round trip is under way goes into the next one: but in a cluster, where the
keys of one script have to be on one server. Nothing here may fail a request: a lock that does not
answer is an answer (LockUnavailable).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from redis.asyncio import Redis, RedisCluster

from replayfloor.core.claims import Acquire, Extend, LockAnswer, Release
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.coalesce_async import Coalescer
from replayfloor.server.locks.circuit import OPEN_S, CircuitBreakerError, Circuits
from replayfloor.server.locks.redis_clients_async import AsyncSingleClient
from replayfloor.server.locks.redis_failure import FORESEEN
from replayfloor.server.locks.redis_limits import ANY_SERVER, LOCK_S, ROUND_TRIPS_MAX
from replayfloor.server.locks.redis_open_async import connect
from replayfloor.server.locks.redis_wire import (
    ACQUIRE,
    ENTRIES_MAX,
    EXTEND,
    RELEASE,
    Arguments,
    Operation,
    OperationAnswer,
    Script,
    acquire_arguments,
    decode,
    decode_batch,
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
        self._single = self._client if isinstance(self._client, AsyncSingleClient) else None
        self._steps_to_write = self._single.steps_to_write if self._single else 0
        self._circuit = self._circuits.of(ANY_SERVER)
        self._operations: Coalescer[Operation, OperationAnswer] = Coalescer(
            self._run_all, entries_max=ENTRIES_MAX, in_order=True
        )
        self._releases: dict[ReceiptId, asyncio.Task[bool]] = {}

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        if self._together:
            return cast("LockAnswer", await self._operations.ask(acquire.id, acquire))
        if releasing := self._releases.get(acquire.id):
            await asyncio.wait((releasing,))
        return decode(await self._run(ACQUIRE, acquire.id, acquire_arguments(acquire)))

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        if self._together:
            return await self._operations.ask(release.id, release) is True
        return await self._run(RELEASE, release.id, release_arguments(release)) == 1

    async def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`."""
        if self._together:
            await self._operations.send(release.id, release)
            for _ in range(self._steps_to_write):
                await asyncio.sleep(0)
        else:
            task = asyncio.get_running_loop().create_task(self.release(release))
            self._releases[release.id] = task
            task.add_done_callback(lambda _ended: self._forget(release.id, task))

    def _forget(self, id_: ReceiptId, ended: asyncio.Task[bool]) -> None:
        if self._releases.get(id_) is ended:
            del self._releases[id_]

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        if self._together:
            return await self._operations.ask(extend.id, extend) is True
        return await self._run(EXTEND, extend.id, extend_arguments(extend)) == 1

    async def close(self) -> None:
        """Perform what was put off, and close the connections of a client made from a URL."""
        await self._operations.drain()
        if self._releases:
            await asyncio.wait(self._releases.values())
        await self._client.close()

    @property
    def _together(self) -> bool:
        """Whether operations go together: while a server fails, one of them tries it, not many."""
        return self._single is not None and self._circuit.closed

    async def _run_all(self, operations: Sequence[Operation]) -> Sequence[OperationAnswer]:
        single = self._single
        assert single is not None
        answer = await self._bounded(ANY_SERVER, lambda: single.run_all(operations))
        return decode_batch(operations, answer)

    async def _run(self, script: Script, id_: ReceiptId, arguments: Arguments) -> object:
        """Return the script's answer, or None if there is none."""
        key = key_of(id_)
        server = self._client.server_of(key)
        return await self._bounded(server, lambda: self._client.run(script, key, arguments))

    async def _bounded(self, server: str, run: Callable[[], Awaitable[object]]) -> object:
        try:
            with self._circuits.of(server).attempt() as is_probe:
                async with asyncio.timeout(self._timeout_s), self._turns:
                    if is_probe:
                        await self._client.forget_idle()
                    return await run()
        except CircuitBreakerError:
            return None
        except FORESEEN:
            return None
        except Exception:
            log.exception("the lock in Redis failed in a way that was not foreseen")
            return None
