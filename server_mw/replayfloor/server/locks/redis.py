"""A lock in Redis or Valkey for WSGI: one Lua script each way, one round trip, a short timeout.

Nothing here may fail a request: a lock that does not answer is an answer (LockUnavailable).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from redis import Redis, RedisCluster

from replayfloor.core.claims import Acquire, Extend, LockAnswer, Release
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks.circuit import OPEN_S, CircuitBreakerError, Circuits
from replayfloor.server.locks.redis_deadline import left_s, within
from replayfloor.server.locks.redis_failure import FORESEEN
from replayfloor.server.locks.redis_limits import LOCK_S, ROUND_TRIPS_MAX
from replayfloor.server.locks.redis_open import connect
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
        self._timeout_s = timeout_s
        self._circuits = Circuits(open_s, clock)
        self._turns = threading.Semaphore(ROUND_TRIPS_MAX)

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        return decode(self._run(ACQUIRE, acquire.id, acquire_arguments(acquire)))

    def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        return self._run(RELEASE, release.id, release_arguments(release)) == 1

    def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return self._run(EXTEND, extend.id, extend_arguments(extend)) == 1

    def close(self) -> None:
        """Close the connections of a client made from a URL."""
        self._client.close()

    def _run(self, script: Script, id_: ReceiptId, arguments: Arguments) -> object:
        """Return the script's answer, or None if there is none."""
        key = key_of(id_)
        try:
            circuit = self._circuits.of(self._client.server_of(key))
            with circuit.attempt() as is_probe, within(self._timeout_s), self._turn():
                if is_probe:
                    self._client.forget_idle()
                return self._client.run(script, key, arguments)
        except CircuitBreakerError:
            return None
        except FORESEEN:
            return None
        except Exception:
            log.exception("the lock in Redis failed in a way that was not foreseen")
            return None

    @contextmanager
    def _turn(self) -> Generator[None]:
        if not self._turns.acquire(timeout=left_s(self._timeout_s)):
            raise TimeoutError("too many operations on the lock were under way")
        try:
            yield
        finally:
            self._turns.release()
