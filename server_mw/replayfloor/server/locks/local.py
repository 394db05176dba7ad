"""A lock inside one process: a dictionary. Other processes are held back by the claim alone."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias
from weakref import WeakSet

from replayfloor.core.claims import Acquire, Acquired, Extend, Fence, Held, LockAnswer, Release
from replayfloor.core.fingerprint import Fingerprint, ReceiptId

SWEPT_PER_ACQUIRE = 2
"""Entries looked at whenever one is added. Two, so that the look comes round faster than the
number of entries grows: at most about as many have ended as are still running."""


_Held: TypeAlias = tuple[Fence, Fingerprint, float]
"""The fence, the fingerprint, and until when: a tuple, as one is made for every request."""


_ACQUIRED: Final = Acquired()


class LocalLock:
    """Holds who is in flight in this process. Keeps no receipts: its store is as near.

    Any number of threads may use one.

    Args:
        clock: seconds of a clock that is never set back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing."""
        self._clock = clock
        self._begin_anew()
        _EVERY.add(self)

    def _begin_anew(self) -> None:
        # In the order in which they were last looked at: the first has waited longest.
        self._held: OrderedDict[ReceiptId, _Held] = OrderedDict()
        # Held for some lookups in a dictionary, so an event loop does not notice it either.
        self._one_at_a_time = threading.Lock()

    @staticmethod
    def begin_anew_after_a_fork() -> None:
        """Forget what the parent holds: it was copied, and so may a taken lock have been, whose
        thread stays behind in the parent."""
        for lock in _EVERY:
            lock._begin_anew()

    @property
    def entries(self) -> int:
        """The number of entries in memory, those included whose lease has ended."""
        return len(self._held)

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        with self._one_at_a_time:
            now_s = self._clock()
            self._sweep(now_s)
            held = self._running(acquire.id, now_s)
            if held is not None and held[0] != acquire.fence:
                _fence, fingerprint, until_s = held
                return Held(fingerprint, max(1, round((until_s - now_s) * 1000)))
            until_s = now_s + acquire.lease_ms / 1000
            self._held[acquire.id] = (acquire.fence, acquire.fingerprint, until_s)
            return _ACQUIRED

    def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        with self._one_at_a_time:
            held = self._running(release.id, self._clock())
            if held is None or held[0] != release.fence:
                return False
            del self._held[release.id]
            return True

    def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`; it is done at once."""
        self.release(release)

    def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        with self._one_at_a_time:
            now_s = self._clock()
            held = self._running(extend.id, now_s)
            if held is None or held[0] != extend.fence:
                return False
            until_s = now_s + extend.lease_ms / 1000
            self._held[extend.id] = (held[0], held[1], until_s)
            return True

    def close(self) -> None:
        """Nothing is connected."""

    def _running(self, id_: ReceiptId, now_s: float) -> _Held | None:
        held = self._held.get(id_)
        return held if held is not None and held[2] > now_s else None

    def _sweep(self, now_s: float) -> None:
        """Drop what has ended among those that waited longest: nobody releases it any more."""
        every = self._held
        for _ in range(min(SWEPT_PER_ACQUIRE, len(every))):
            id_ = next(iter(every))
            if every[id_][2] > now_s:
                every.move_to_end(id_)
            else:
                del every[id_]


_EVERY: WeakSet[LocalLock] = WeakSet()
os.register_at_fork(after_in_child=LocalLock.begin_anew_after_a_fork)


class AsyncLocalLock:
    """The same for ASGI. Give both middlewares of one process the same `lock` to share it."""

    def __init__(self, lock: LocalLock | None = None) -> None:
        """Use `lock`, or one of its own."""
        self._lock = lock or LocalLock()

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        return self._lock.acquire(acquire)

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        return self._lock.release(release)

    async def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`; it is done at once."""
        self._lock.release(release)

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return self._lock.extend(extend)

    async def close(self) -> None:
        """Nothing is connected."""
