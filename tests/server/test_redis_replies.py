"""A Redis that answers, but not with the lock: flushed, damaged, full, or a replica."""

from __future__ import annotations

import pytest

from replayfloor.core.claims import Acquired, LockUnavailable, Release
from replayfloor.testing.contract import new_fence, new_id
from server.redis_locks import Colour, both_colours, opened, request
from support.services import Redis
from support.services.redis_words import ask

pytestmark = pytest.mark.anyio


@both_colours
async def test_a_flushed_server_goes_on_and_forgets(redis_server: Redis, colour: Colour) -> None:
    async with opened(colour, redis_server.url) as each:
        first = request()
        await each.lock.acquire(first)
        redis_server.flush()
        ask(redis_server.port, "SCRIPT", "FLUSH")

        assert await each.try_one(first.id) == Acquired()
        assert not await each.lock.release(Release(first.id, first.fence))


@both_colours
@pytest.mark.parametrize(
    "words", [("RPUSH", "x"), ("SET", "nobody wrote this"), ("SET", "R" + 16 * "f" + "no receipt")]
)
async def test_a_damaged_value_costs_its_own_key_the_lock_and_no_other(
    redis_server: Redis, colour: Colour, words: tuple[str, str]
) -> None:
    async with opened(colour, redis_server.url) as each:
        damaged = new_id()
        command, value = words
        ask(redis_server.port, command, f"replayfloor:{damaged.hex()}", value)

        assert await each.try_one(damaged) == LockUnavailable()
        assert not await each.lock.release(Release(damaged, new_fence()))
        assert await each.try_one() == Acquired()


@both_colours
@pytest.mark.parametrize(
    ("option", "broken", "whole"),
    [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")],
    ids=["OOM", "NOREPLICAS"],
)
async def test_a_server_that_refuses_every_write_is_left_alone(
    redis_server: Redis, colour: Colour, option: str, broken: str, whole: str
) -> None:
    async with opened(colour, redis_server.url) as each:
        await each.try_one()
        try:
            ask(redis_server.port, "CONFIG", "SET", option, broken)
            assert await each.try_one() == LockUnavailable()
        finally:
            ask(redis_server.port, "CONFIG", "SET", option, whole)

        assert await each.try_one() == LockUnavailable()
        each.clock.let_probe()
        assert await each.try_one() == Acquired()


@both_colours
async def test_a_server_that_became_a_replica_is_left_alone(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url) as each:
        await each.try_one()
        try:
            ask(redis_server.port, "REPLICAOF", "127.0.0.1", 1)
            assert await each.try_one() == LockUnavailable()
        finally:
            ask(redis_server.port, "REPLICAOF", "NO", "ONE")

        assert await each.try_one() == LockUnavailable()
        each.clock.let_probe()
        assert await each.try_one() == Acquired()
