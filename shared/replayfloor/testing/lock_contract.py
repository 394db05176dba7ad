"""The contract of an in-flight lock, as a test class to inherit from (see contract.py).

A blocking lock is tested by the same class, inside a ThreadedLock.
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread
import pytest

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Cached,
    Extend,
    Fence,
    Held,
    LockAnswer,
    Release,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks import Lock
from replayfloor.testing.contract import (
    AFTER_SHORT_MS,
    LONG_MS,
    OTHER_REQUEST,
    REQUEST,
    SHORT_MS,
    LockSubject,
    new_fence,
    new_id,
    receipt,
)

THREADS_MAX = 128
"""Calls that a ThreadedLock carries out at once."""

SOON = 50
"""Rounds of a release and an acquire that follows it at once."""

AT_ONCE = 16
"""Acquires of one lock that race with each other."""


class ThreadedLock:
    """A blocking lock in the shape of an AsyncLock: each call in a thread of its own."""

    def __init__(self, lock: Lock) -> None:
        """Pass everything on to `lock`."""
        self._lock = lock
        self._threads = anyio.CapacityLimiter(THREADS_MAX)

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        call = partial(self._lock.acquire, acquire)
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        call = partial(self._lock.release, release)
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    async def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`."""
        self._lock.release_soon(release)

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        call = partial(self._lock.extend, extend)
        return await anyio.to_thread.run_sync(call, limiter=self._threads)

    async def close(self) -> None:
        """Close the lock."""
        await anyio.to_thread.run_sync(self._lock.close, limiter=self._threads)


def acquire(id_: ReceiptId, fence: Fence, lease_ms: int = LONG_MS) -> Acquire:
    """Return the effect for REQUEST."""
    return Acquire(id_, REQUEST, fence, lease_ms)


@pytest.mark.anyio
class LockContract:
    """What every `AsyncLock` promises."""

    async def test_a_free_lock_is_acquired(self, subject: LockSubject) -> None:
        assert await subject.lock.acquire(acquire(new_id(), new_fence())) == Acquired()

    async def test_a_held_lock_shows_its_fingerprint_and_the_rest_of_its_lease(
        self, subject: LockSubject
    ) -> None:
        id_ = new_id()
        await subject.lock.acquire(acquire(id_, new_fence()))
        answer = await subject.lock.acquire(Acquire(id_, OTHER_REQUEST, new_fence(), LONG_MS))

        assert isinstance(answer, Held)
        assert answer.fingerprint == REQUEST
        assert LONG_MS - 10_000 < answer.left_ms <= LONG_MS

    async def test_acquiring_again_with_the_same_fence_succeeds(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence))

        assert await subject.lock.acquire(acquire(id_, fence)) == Acquired()

    async def test_of_simultaneous_acquires_exactly_one_succeeds(
        self, subject: LockSubject
    ) -> None:
        id_ = new_id()
        answers: list[LockAnswer] = []

        async def one() -> None:
            answers.append(await subject.lock.acquire(acquire(id_, new_fence())))

        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(one)

        assert sum(answer == Acquired() for answer in answers) == 1
        assert sum(isinstance(answer, Held) for answer in answers) == AT_ONCE - 1

    async def test_a_released_lock_is_free(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence))

        assert await subject.lock.release(Release(id_, fence))
        assert not await subject.lock.release(Release(id_, fence))
        assert await subject.lock.acquire(acquire(id_, new_fence())) == Acquired()

    async def test_a_release_that_nobody_waits_for_comes_before_the_next_acquire(
        self, subject: LockSubject
    ) -> None:
        """A client that has its answer may send the next request of the same key at once."""
        id_ = new_id()
        for _ in range(SOON):
            fence = new_fence()
            assert await subject.lock.acquire(acquire(id_, fence)) == Acquired()
            await subject.lock.release_soon(Release(id_, fence))

    async def test_a_release_that_nobody_waits_for_is_its_holders_too(
        self, subject: LockSubject
    ) -> None:
        id_ = new_id()
        await subject.lock.acquire(acquire(id_, new_fence()))
        await subject.lock.release_soon(Release(id_, new_fence()))

        assert isinstance(await subject.lock.acquire(acquire(id_, new_fence())), Held)

    async def test_only_its_holder_can_release_a_lock(self, subject: LockSubject) -> None:
        id_ = new_id()
        await subject.lock.acquire(acquire(id_, new_fence()))

        assert not await subject.lock.release(Release(id_, new_fence(), receipt(), LONG_MS))
        assert isinstance(await subject.lock.acquire(acquire(id_, new_fence())), Held)

    async def test_a_lock_ends_with_its_lease_and_its_old_holder_cannot_end_the_next(
        self, subject: LockSubject
    ) -> None:
        id_, old, new = new_id(), new_fence(), new_fence()
        await subject.lock.acquire(acquire(id_, old, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)

        assert await subject.lock.acquire(acquire(id_, new)) == Acquired()
        assert not await subject.lock.release(Release(id_, old))
        assert isinstance(await subject.lock.acquire(acquire(id_, new_fence())), Held)

    async def test_a_lock_whose_lease_ended_is_neither_extended_nor_released(
        self, subject: LockSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)

        assert not await subject.lock.extend(Extend(id_, fence, LONG_MS))
        assert not await subject.lock.release(Release(id_, fence))

    async def test_an_extended_lock_lasts_beyond_its_first_lease(
        self, subject: LockSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence, SHORT_MS))

        assert not await subject.lock.extend(Extend(id_, new_fence(), LONG_MS))
        assert await subject.lock.extend(Extend(id_, fence, LONG_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        answer = await subject.lock.acquire(acquire(id_, new_fence()))
        assert isinstance(answer, Held)
        assert answer.left_ms > LONG_MS - 10_000

    async def test_what_is_not_held_cannot_be_extended(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()

        assert not await subject.lock.extend(Extend(id_, fence, LONG_MS))
        await subject.lock.acquire(acquire(id_, fence))
        await subject.lock.release(Release(id_, fence, receipt(), LONG_MS))
        assert not await subject.lock.extend(Extend(id_, fence, LONG_MS))

    async def test_a_receipt_left_in_its_place_is_shown_unchanged_or_forgotten(
        self, subject: LockSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        kept = receipt(bytes(range(256)))
        await subject.lock.acquire(acquire(id_, fence))
        await subject.lock.release(Release(id_, fence, kept, LONG_MS))
        answer: LockAnswer = await subject.lock.acquire(acquire(id_, new_fence()))

        assert answer in (Cached(kept), Acquired())

    async def test_a_receipt_is_kept_no_longer_than_asked(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence))
        await subject.lock.release(Release(id_, fence, receipt(), SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)

        assert await subject.lock.acquire(acquire(id_, new_fence())) == Acquired()

    async def test_locks_do_not_disturb_each_other(self, subject: LockSubject) -> None:
        await subject.lock.acquire(acquire(new_id(), new_fence()))

        assert await subject.lock.acquire(acquire(new_id(), new_fence())) == Acquired()

    async def test_a_closed_lock_can_be_used_again(self, subject: LockSubject) -> None:
        id_ = new_id()
        await subject.lock.acquire(acquire(id_, new_fence()))
        await subject.lock.close()
        await subject.lock.close()

        assert isinstance(await subject.lock.acquire(acquire(id_, new_fence())), Held)
