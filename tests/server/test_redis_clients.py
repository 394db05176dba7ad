"""Clients that were made elsewhere and are passed in: used, and left open."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

from replayfloor.core.claims import Acquired, Cached, Extend, Held, LockUnavailable, Release
from replayfloor.server.locks import AsyncLock
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.testing.contract import LONG_MS, receipt
from replayfloor.testing.lock_contract import ThreadedLock
from server.redis_locks import all_at_once, request
from support.services import Redis, RedisCluster, RedisSentinels
from support.services.redis_sentinels import SERVICE

pytestmark = pytest.mark.anyio

# The tests are not about time, and a busy machine pauses.
TIMEOUT_S = 10.0
HOST = "127.0.0.1"
MANY = 32


async def all_is_well_with(lock: AsyncLock) -> None:
    """Take a lock, meet it, keep it, and leave a receipt in its place."""
    one = request()
    assert await lock.acquire(one) == Acquired()
    assert isinstance(await lock.acquire(request(one.id)), Held)
    assert await lock.extend(Extend(one.id, one.fence, LONG_MS))
    assert await lock.release(Release(one.id, one.fence, receipt(), LONG_MS))
    assert await lock.acquire(request(one.id)) == Cached(receipt())


def blocking(client: redis.Redis | redis.RedisCluster) -> AsyncLock:
    return ThreadedLock(RedisLock(client))


async def test_a_blocking_client(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, socket_timeout=TIMEOUT_S) as client:
        lock = blocking(client)
        await all_is_well_with(lock)
        await lock.close()
        assert client.ping()


async def test_an_asyncio_client(redis_url: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        lock = AsyncRedisLock(client, timeout_s=TIMEOUT_S)
        await all_is_well_with(lock)
        await lock.close()
        assert await client.ping()


async def test_a_blocking_client_of_sentinels(redis_sentinels: RedisSentinels) -> None:
    addresses = [(HOST, each.port) for each in redis_sentinels.sentinels]
    sentinel = Sentinel(addresses, socket_timeout=TIMEOUT_S)  # type: ignore[no-untyped-call]
    with sentinel.master_for(SERVICE) as client:  # type: ignore[no-untyped-call]
        lock = blocking(client)
        await all_is_well_with(lock)
        await lock.close()
        assert client.ping()
    for each in sentinel.sentinels:
        each.close()


async def test_an_asyncio_client_of_sentinels(redis_sentinels: RedisSentinels) -> None:
    addresses = [(HOST, each.port) for each in redis_sentinels.sentinels]
    sentinel = AsyncSentinel(addresses)  # type: ignore[no-untyped-call]
    async with sentinel.master_for(SERVICE) as client:
        lock = AsyncRedisLock(client, timeout_s=TIMEOUT_S)
        await all_is_well_with(lock)
        await lock.close()
        assert await client.ping()
    for each in sentinel.sentinels:
        await each.aclose()


async def test_a_blocking_client_of_a_cluster(redis_cluster: RedisCluster) -> None:
    with redis.RedisCluster(HOST, redis_cluster.nodes[0].port, socket_timeout=TIMEOUT_S) as client:
        lock = blocking(client)
        await all_is_well_with(lock)
        await lock.close()
        assert client.ping(target_nodes=client.get_random_node())


async def test_an_asyncio_client_of_a_cluster(redis_cluster: RedisCluster) -> None:
    async with redis.asyncio.RedisCluster(HOST, redis_cluster.nodes[0].port) as client:
        lock = AsyncRedisLock(client, timeout_s=TIMEOUT_S)
        await all_is_well_with(lock)
        await lock.close()
        assert await client.ping(target_nodes=client.get_random_node())


async def test_many_at_once_may_be_the_first_to_use_an_asyncio_client_of_a_cluster(
    redis_cluster: RedisCluster,
) -> None:
    """redis-py sends what comes before it knows the cluster to any node, and cuts connections
    after some such errors."""
    async with redis.asyncio.RedisCluster(HOST, redis_cluster.nodes[0].port) as client:
        await client.aclose()
        lock = AsyncRedisLock(client, timeout_s=TIMEOUT_S)
        results = await all_at_once([partial(lock.acquire, request()) for _ in range(MANY)])

        assert {answer for answer, _ in results} == {Acquired()}


async def test_an_asyncio_client_cannot_make_a_request_wait_longer(redis_server: Redis) -> None:
    """Its own timeout is that of redis-py, which is 5 s or none."""
    async with redis.asyncio.Redis.from_url(redis_server.url) as client:
        lock = AsyncRedisLock(client, timeout_s=0.2)
        await lock.acquire(request())
        redis_server.freeze()
        with anyio.fail_after(2):
            assert await lock.acquire(request()) == LockUnavailable()
        redis_server.thaw()
