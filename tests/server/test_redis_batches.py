"""Lock operations that share a script call are answered as if each had one of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis import Redis as BlockingClient
from redis.asyncio import Redis as Client

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Cached,
    Extend,
    Held,
    LockUnavailable,
    Release,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.server.locks.redis_limits import LOCK_S
from replayfloor.server.locks.redis_wire import ENTRIES_MAX, key_of
from replayfloor.testing.contract import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.redis_locks import PATIENT_S
from support.services import Redis

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lock(redis_url: str) -> AsyncIterator[AsyncRedisLock]:
    lock = AsyncRedisLock(redis_url, timeout_s=PATIENT_S)
    yield lock
    await lock.close()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Client]:
    async with Client.from_url(redis_url, protocol=2) as client:
        yield client


def acquire(id_: ReceiptId | None = None) -> Acquire:
    return Acquire(id_ or new_id(), REQUEST, new_fence(), LONG_MS)


async def scripts(client: Client) -> int:
    stats = await client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


async def test_operations_at_the_same_time_share_a_round_trip(
    lock: AsyncRedisLock, client: Client
) -> None:
    await lock.acquire(acquire())
    before = await scripts(client)

    answers = await asyncio.gather(*(lock.acquire(acquire()) for _ in range(2 * ENTRIES_MAX)))

    assert answers == [Acquired()] * len(answers)
    assert await scripts(client) - before <= 3


async def test_every_kind_of_operation_is_answered_in_one_call(lock: AsyncRedisLock) -> None:
    held, gone, mine, kept = (acquire() for _ in range(4))
    for one in (held, mine, kept):
        await lock.acquire(one)
    await lock.release(Release(kept.id, kept.fence, receipt(), LONG_MS))

    answers = await asyncio.gather(
        lock.acquire(acquire()),
        lock.acquire(acquire(held.id)),
        lock.acquire(acquire(kept.id)),
        lock.extend(Extend(mine.id, mine.fence, LONG_MS)),
        lock.extend(Extend(gone.id, gone.fence, LONG_MS)),
        lock.release(Release(held.id, new_fence())),
    )

    assert answers[0] == Acquired()
    assert isinstance(answers[1], Held)
    assert LONG_MS - 10_000 < answers[1].left_ms <= LONG_MS
    assert answers[2] == Cached(receipt())
    assert list(answers[3:]) == [True, False, False]
    assert await lock.release(Release(mine.id, mine.fence))


@pytest.mark.parametrize("damage", ["another type", "another value", "a receipt cut short"])
async def test_a_damaged_value_is_the_failure_of_its_own_key(
    lock: AsyncRedisLock, client: Client, damage: str
) -> None:
    await lock.acquire(acquire())
    damaged, others = new_id(), [acquire() for _ in range(10)]
    match damage:
        case "another type":
            await client.rpush(key_of(damaged), "x")
        case "another value":
            await client.set(key_of(damaged), b"Lnot what was written here")
        case _:
            await client.set(key_of(damaged), b"R" + REQUEST + b"\x01\x00")

    answers = await asyncio.gather(
        *map(lock.acquire, others[:5]),
        lock.acquire(acquire(damaged)),
        *map(lock.acquire, others[5:]),
    )

    assert answers.pop(5) == LockUnavailable()
    assert answers == [Acquired()] * 10


async def test_an_operation_comes_after_the_one_before_it_on_the_same_key(
    lock: AsyncRedisLock,
) -> None:
    """All in one step of the event loop, so they wait together."""
    first, second = acquire(), acquire()
    second = Acquire(first.id, REQUEST, second.fence, LONG_MS)

    answers = await asyncio.gather(
        lock.acquire(first), lock.release(Release(first.id, first.fence)), lock.acquire(second)
    )

    assert list(answers) == [Acquired(), True, Acquired()]


async def test_nobody_waits_for_the_end_of_a_lock(redis_server: Redis) -> None:
    lock = AsyncRedisLock(redis_server.url)
    one = acquire()
    assert await lock.acquire(one) == Acquired()
    redis_server.freeze()
    began = time.monotonic()
    await lock.release_soon(Release(one.id, one.fence))

    assert time.monotonic() - began < LOCK_S / 5
    redis_server.thaw()
    await lock.close()


async def test_a_release_is_on_its_way_before_the_answer_is(
    lock: AsyncRedisLock, redis_url: str
) -> None:
    """A client that has its answer may send the same request to another worker at once.

    The event loop stands still here: what arrives was sent before.
    """
    with BlockingClient.from_url(redis_url) as blocking:
        for _ in range(20):
            one = acquire()
            assert await lock.acquire(one) == Acquired()
            await lock.release_soon(Release(one.id, one.fence))
            deadline = time.monotonic() + 2
            while blocking.exists(key_of(one.id)) and time.monotonic() < deadline:
                time.sleep(0.001)  # noqa: ASYNC251 - the loop has to stand still
            assert not blocking.exists(key_of(one.id))
