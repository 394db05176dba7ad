"""A lock inside one process: a dictionary. Other processes are held back by the claim alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from replayfloor.core.claims import Acquire, Acquired, Extend, Fence, Held, LockAnswer, Release
from replayfloor.core.fingerprint import Fingerprint, ReceiptId


class LocalLock:
    """Holds who is in flight in this process. Keeps no receipts: its store is as near.

    Args:
        clock: seconds of a clock that is never set back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing."""
        self._clock = clock
        self._held: dict[ReceiptId, tuple[Fence, Fingerprint, float]] = {}
        # Held for some lookups in a dictionary, so an event loop does not notice it either.
        self._one_at_a_time = threading.Lock()

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        with self._one_at_a_time:
            now = self._clock()
            fence, fingerprint, until = self._held.get(acquire.id, (acquire.fence, b"", now))
            if fence != acquire.fence and until > now:
                return Held(Fingerprint(fingerprint), max(1, round((until - now) * 1000)))
            until = now + acquire.lease_ms / 1000
            self._held[acquire.id] = (acquire.fence, acquire.fingerprint, until)
            return Acquired()

    def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        with self._one_at_a_time:
            fence, _fingerprint, until = self._held.get(release.id, (None, b"", 0.0))
            if fence != release.fence:
                return False
            del self._held[release.id]
            return until > self._clock()

    def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        with self._one_at_a_time:
            fence, fingerprint, _until = self._held.get(extend.id, (None, b"", 0.0))
            if fence != extend.fence:
                return False
            until = self._clock() + extend.lease_ms / 1000
            self._held[extend.id] = (extend.fence, Fingerprint(fingerprint), until)
            return True

    def close(self) -> None:
        """Nothing is connected."""


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

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return self._lock.extend(extend)

    async def close(self) -> None:
        """Nothing is connected."""
