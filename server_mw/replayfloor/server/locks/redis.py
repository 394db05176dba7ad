"""A lock in Redis or Valkey for WSGI: one Lua script, one round trip, a short timeout.

What arrives while a round trip is under way goes into the next one: but in a cluster, where the
keys of one script have to be on one server. Nothing here may fail a request: a lock that does not
answer is an answer (LockUnavailable).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import assert_never

from redis import Redis, RedisCluster

from replayfloor.core.claims import Acquire, Extend, LockAnswer, LockUnavailable, Release
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.coalesce_threads import Coalescer, Take
from replayfloor.server.locks.circuit import OPEN_S, CircuitBreakerError, Circuits
from replayfloor.server.locks.redis_clients import NO_LANE, SingleClient
from replayfloor.server.locks.redis_deadline import left_s, until
from replayfloor.server.locks.redis_failure import FORESEEN
from replayfloor.server.locks.redis_limits import ANY_SERVER, LOCK_S, ROUND_TRIPS_MAX
from replayfloor.server.locks.redis_open import connect
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


class RedisLock:
    """Locks, and for a while the receipts of finished keys, in Redis.

    The first operation that fails for the server's sake makes the lock answer LockUnavailable at
    once for `open_s`; then one operation tries again. In a cluster, this is per server.

    Args:
        client: a URL (see `redis_url.py` for its forms), or a `redis.Redis` (also one of
            `Sentinel.master_for`) or `redis.RedisCluster` that returns bytes. One that was passed
            in is not closed by `close` (but its idle connections are, after a failure), and it
            waits as long as its own timeouts and retries say: `timeout_s` cannot shorten them.
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
        self._single = self._client if isinstance(self._client, SingleClient) else None
        self._timeout_s = timeout_s
        self._circuits = Circuits(open_s, clock)
        self._turns = threading.Semaphore(ROUND_TRIPS_MAX)
        # Whether the last operation got no answer. Others then do not wait behind the one that
        # tries again: the circuit tells them at once.
        self._fails = False
        self._operations: Coalescer[Operation, OperationAnswer] = Coalescer(
            self._together,
            self._alone,
            entries_max=ENTRIES_MAX,
            limit_s=timeout_s,
            send=self._send,
        )

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        answer = self._ask(acquire)
        return LockUnavailable() if isinstance(answer, bool) else answer

    def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        return self._ask(release) is True

    def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`. In a cluster it is waited for."""
        if self._single is None:
            self.release(release)
        else:
            self._operations.put(release.id, release)

    def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return self._ask(extend) is True

    def close(self) -> None:
        """Perform what was put off, and close the connections of a client made from a URL."""
        self._operations.drain()
        with until(time.monotonic() + self._timeout_s):
            self._client.close()

    def _ask(self, operation: Operation) -> OperationAnswer:
        if self._single is None or self._fails:
            return self._alone(operation, time.monotonic() + self._timeout_s)
        try:
            return self._operations.ask(operation.id, operation)
        except StoreUnavailable:
            return LockUnavailable()

    def _alone(self, operation: Operation, deadline: float) -> OperationAnswer:
        if self._single is not None:
            return self._in_one_call(self._single, [operation], deadline)[0]
        key = key_of(operation.id)
        script, arguments = _script_of(operation)

        def run() -> object:
            with self._turn():
                return self._client.run(script, key, arguments)

        answer = self._run(self._client.server_of(key), deadline, run)
        return decode(answer) if isinstance(operation, Acquire) else answer == 1

    def _together(self, take: Take[Operation], deadline: float) -> Sequence[OperationAnswer]:
        operations, single = take(), self._single
        if single is None:
            return [self._alone(operation, deadline) for operation in operations]
        return self._in_one_call(single, operations, deadline)

    def _in_one_call(
        self, single: SingleClient, operations: Sequence[Operation], deadline: float
    ) -> Sequence[OperationAnswer]:
        def run() -> object:
            answer = single.run_all_in_lane(operations)
            if answer is not NO_LANE:
                return answer
            with self._turn():
                return single.run_all(operations)

        return decode_batch(operations, self._run(ANY_SERVER, deadline, run))

    def _send(self, operations: Sequence[Operation]) -> bool:
        """Send what nobody waits for; what becomes of it shows when the next answer is read."""
        if self._single is None or self._fails or not self._circuits.of(ANY_SERVER).closed:
            return False
        try:
            return self._single.send_all(operations)
        except Exception:
            log.exception("the end of a lock could not be sent")
            return False

    def _run(self, server: str, deadline: float, run: Callable[[], object]) -> object:
        """Return what a script has answered, or None if it has not."""
        answer = None
        try:
            with self._circuits.of(server).attempt() as is_probe, until(deadline):
                if is_probe:
                    self._client.forget_idle()
                answer = run()
        except CircuitBreakerError:
            pass
        except FORESEEN:
            pass
        except Exception:
            log.exception("the lock in Redis failed in a way that was not foreseen")
        self._fails = answer is None
        return answer

    @contextmanager
    def _turn(self) -> Generator[None]:
        if not self._turns.acquire(timeout=left_s(self._timeout_s)):
            raise TimeoutError("too many operations on the lock were under way")
        try:
            yield
        finally:
            self._turns.release()


def _script_of(operation: Operation) -> tuple[Script, Arguments]:
    match operation:
        case Acquire():
            return ACQUIRE, acquire_arguments(operation)
        case Release():
            return RELEASE, release_arguments(operation)
        case Extend():
            return EXTEND, extend_arguments(operation)
        case _:
            assert_never(operation)
