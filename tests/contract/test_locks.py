"""The lock contract on every lock: Redis, the local one, and the simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from contract.subjects import sleep_ms
from replayfloor.core.claims import Acquire, Acquired, Cached, LockUnavailable, Release
from replayfloor.server.locks.local import AsyncLocalLock
from replayfloor.server.locks.redis_async import CACHED_BYTES_MAX, AsyncRedisLock
from replayfloor.testing.contract import REQUEST, LockSubject, new_fence, new_id, receipt
from replayfloor.testing.lock_contract import LockContract, acquire
from replayfloor.testing.simulated import SimulatedLock
from replayfloor.testing.world import World
from support.services import Redis


class TestRedisLock(LockContract):
    """AsyncRedisLock on a real Redis-compatible server."""

    @pytest.fixture
    async def subject(self, redis_url: str) -> AsyncIterator[LockSubject]:
        lock = AsyncRedisLock(redis_url)
        yield LockSubject(lock, sleep_ms)
        await lock.close()

    async def test_a_receipt_is_cached(self, subject: LockSubject) -> None:
        id_, fence, kept = new_id(), new_fence(), receipt()
        await subject.lock.acquire(acquire(id_, fence))
        await subject.lock.release(Release(id_, fence, kept, 60_000))

        assert await subject.lock.acquire(acquire(id_, new_fence())) == Cached(kept)

    async def test_a_large_receipt_is_not_cached(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence))
        large = receipt(bytes(CACHED_BYTES_MAX))

        assert await subject.lock.release(Release(id_, fence, large, 60_000))
        assert await subject.lock.acquire(acquire(id_, new_fence())) == Acquired()


class TestLocalLock(LockContract):
    """AsyncLocalLock, inside one process."""

    @pytest.fixture
    async def subject(self) -> LockSubject:
        return LockSubject(AsyncLocalLock(), sleep_ms)


class TestSimulatedLock(LockContract):
    """The lock of the schedule explorer's world."""

    @pytest.fixture
    async def subject(self) -> LockSubject:
        world = World()

        async def pass_ms(pause_ms: int) -> None:
            world.now_ms += pause_ms

        return LockSubject(SimulatedLock(world), pass_ms)


@pytest.mark.anyio
async def test_a_lock_that_is_down_is_an_answer_and_comes_back(redis_server: Redis) -> None:
    lock = AsyncRedisLock(redis_server.url)
    id_, fence = new_id(), new_fence()
    request = Acquire(id_, REQUEST, fence, 60_000)
    await lock.acquire(request)
    redis_server.crash()

    assert await lock.acquire(request) == LockUnavailable()
    assert not await lock.release(Release(id_, fence))
    redis_server.start()
    assert await lock.acquire(request) == Acquired()
    await lock.close()


@pytest.mark.anyio
async def test_a_lock_that_hangs_is_an_answer(redis_server: Redis) -> None:
    lock = AsyncRedisLock(redis_server.url)
    request = Acquire(new_id(), REQUEST, new_fence(), 60_000)
    await lock.acquire(request)
    redis_server.freeze()

    assert await lock.acquire(request) == LockUnavailable()
    redis_server.thaw()
    await lock.close()
