"""The lock contract on every lock, in both colours: Redis in its three forms, the local one, and
the simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from contract.subjects import sleep_ms
from replayfloor.core.claims import Acquired, Cached, Release
from replayfloor.server.locks import AsyncLock
from replayfloor.server.locks.local import AsyncLocalLock, LocalLock
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.server.locks.redis_wire import CACHED_BYTES_MAX
from replayfloor.testing.contract import LONG_MS, LockSubject, new_fence, new_id, receipt
from replayfloor.testing.lock_contract import LockContract, ThreadedLock, acquire
from replayfloor.testing.simulated import SimulatedLock
from replayfloor.testing.world import World
from support.services import RedisCluster, RedisSentinels

# The contract is not about time, and a busy machine pauses for longer than LOCK_S.
TIMEOUT_S = 10.0


@pytest.fixture(params=["one server", "sentinels", "cluster"])
def lock_url(request: pytest.FixtureRequest) -> str:
    """The URL of each form of Redis."""
    match request.param:
        case "one server":
            url = request.getfixturevalue("redis_url")
            assert isinstance(url, str)
            return url
        case "sentinels":
            sentinels = request.getfixturevalue("redis_sentinels")
            assert isinstance(sentinels, RedisSentinels)
            return sentinels.url
        case _:
            cluster = request.getfixturevalue("redis_cluster")
            assert isinstance(cluster, RedisCluster)
            return cluster.url


class TestRedisLock(LockContract):
    """AsyncRedisLock and RedisLock on real Redis-compatible servers."""

    @pytest.fixture(params=["async", "sync"])
    async def subject(
        self, request: pytest.FixtureRequest, lock_url: str
    ) -> AsyncIterator[LockSubject]:
        lock: AsyncLock
        if request.param == "async":
            lock = AsyncRedisLock(lock_url, timeout_s=TIMEOUT_S)
        else:
            lock = ThreadedLock(RedisLock(lock_url, timeout_s=TIMEOUT_S))
        yield LockSubject(lock, sleep_ms)
        await lock.close()

    async def test_a_receipt_is_cached(self, subject: LockSubject) -> None:
        id_, fence, kept = new_id(), new_fence(), receipt()
        await subject.lock.acquire(acquire(id_, fence))
        await subject.lock.release(Release(id_, fence, kept, LONG_MS))

        assert await subject.lock.acquire(acquire(id_, new_fence())) == Cached(kept)

    async def test_a_large_receipt_is_not_cached(self, subject: LockSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.lock.acquire(acquire(id_, fence))
        large = receipt(bytes(CACHED_BYTES_MAX))

        assert await subject.lock.release(Release(id_, fence, large, LONG_MS))
        assert await subject.lock.acquire(acquire(id_, new_fence())) == Acquired()


class TestLocalLock(LockContract):
    """AsyncLocalLock and LocalLock, inside one process."""

    @pytest.fixture(params=["async", "sync"])
    async def subject(self, request: pytest.FixtureRequest) -> LockSubject:
        lock = AsyncLocalLock() if request.param == "async" else ThreadedLock(LocalLock())
        return LockSubject(lock, sleep_ms)


class TestSimulatedLock(LockContract):
    """The lock of the schedule explorer's world."""

    @pytest.fixture
    async def subject(self) -> LockSubject:
        world = World()

        async def pass_ms(pause_ms: int) -> None:
            world.now_ms += pause_ms

        return LockSubject(SimulatedLock(world), pass_ms)
