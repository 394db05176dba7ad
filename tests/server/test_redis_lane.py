"""The connection that a lock keeps for its batches: one, made anew when lost, and given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis._parsers.encoders import Encoder
from redis.asyncio import Redis as Client
from redis.connection import PythonRespSerializer

from replayfloor.core.claims import Acquire, Acquired, Extend, Held, LockUnavailable, Release
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.server.locks.redis_wire import (
    BATCH,
    Operation,
    batch_arguments,
    batch_command,
)
from replayfloor.testing.contract import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.redis_locks import PATIENT_S, Clock, request
from support.services import Redis

pytestmark = pytest.mark.anyio

SHORT_S = 0.2


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Client]:
    async with Client.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
async def lock(redis_url: str) -> AsyncIterator[AsyncRedisLock]:
    lock = AsyncRedisLock(redis_url, timeout_s=PATIENT_S)
    yield lock
    await lock.close()


async def connections(client: Client) -> set[str]:
    """Return the ids of the connections that are not the asker's own."""
    own = str(await client.client_id())
    return {each["id"] for each in await client.client_list()} - {own}


@pytest.mark.parametrize("number", [1, 2, 9, 10, 128])
def test_a_batch_is_the_same_bytes_as_redis_py_would_send(number: int) -> None:
    id_, fence = new_id(), new_fence()
    kinds: list[Operation] = [
        Acquire(id_, REQUEST, fence, LONG_MS),
        Release(id_, fence),
        Release(id_, fence, receipt(), LONG_MS),
        Extend(id_, fence, 1),
    ]
    batch = [kinds[place % len(kinds)] for place in range(number)]
    encoder = cast("Any", Encoder)("utf-8", "strict", decode_responses=False)
    theirs = cast("Any", PythonRespSerializer)(0, encoder.encode)

    packed = theirs.pack("EVALSHA", BATCH.sha, number, *batch_arguments(batch))
    assert batch_command(batch) == b"".join(packed)


async def test_batches_that_follow_each_other_keep_one_connection(
    lock: AsyncRedisLock, client: Client
) -> None:
    await client.script_load(BATCH.text)  # else its text is sent first, and not by the lane
    before = await connections(client)
    assert await lock.acquire(request()) == Acquired()
    used = await connections(client) - before
    for _ in range(5):
        assert await lock.acquire(request()) == Acquired()

    assert len(used) == 1
    assert await connections(client) - before == used


async def test_a_connection_that_the_server_has_closed_costs_nobody_an_answer(
    lock: AsyncRedisLock, client: Client
) -> None:
    before = await connections(client)
    for _ in range(3):
        one = request()
        assert await lock.acquire(one) == Acquired()
        for lost in await connections(client) - before:
            await client.client_kill_filter(_id=lost)

        other = await lock.acquire(Acquire(one.id, REQUEST, new_fence(), LONG_MS))

        assert isinstance(other, Held)


async def test_an_answer_that_came_too_late_is_not_taken_for_that_of_the_next_batch(
    redis_server: Redis,
) -> None:
    clock = Clock()
    lock = AsyncRedisLock(redis_server.url, timeout_s=SHORT_S, clock=clock)
    taken = request()
    assert await lock.acquire(taken) == Acquired()
    again = Acquire(taken.id, REQUEST, new_fence(), LONG_MS)
    redis_server.freeze()
    assert await lock.acquire(again) == LockUnavailable()
    redis_server.thaw()
    clock.let_probe()
    answers = [await lock.acquire(request()) for _ in range(2)]  # the first closes the circuit

    assert answers[-1] == Acquired()
    assert isinstance(await lock.acquire(again), Held)
    await lock.close()


async def test_a_closed_lock_has_no_connection_and_can_be_used_again(
    lock: AsyncRedisLock, client: Client
) -> None:
    before = await connections(client)
    for _ in range(2):
        assert await lock.acquire(request()) == Acquired()
        await lock.close()

        assert await connections(client) == before


async def test_a_client_of_somebody_elses_has_its_connection_back_after_each_batch(
    redis_url: str,
) -> None:
    async with Client.from_url(redis_url, protocol=2, max_connections=1) as theirs:
        lock = AsyncRedisLock(theirs, timeout_s=PATIENT_S)
        for _ in range(3):
            assert await lock.acquire(request()) == Acquired()
            assert await theirs.ping()
