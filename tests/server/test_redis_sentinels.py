"""A primary that fails under sentinels, and sentinels that fail: the lock answers all the while,
and works with the server that takes over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replayfloor.core.claims import Acquired, LockUnavailable
from server.redis_locks import (
    AT_ONCE_S,
    ONE_WAIT_S,
    WAIT_S,
    Colour,
    all_at_once,
    both_colours,
    longest_s,
    measured,
    opened,
    opened_both,
    timed,
    until,
    until_it_works,
)
from support.services import RedisSentinels

pytestmark = pytest.mark.anyio

MANY = 16
# Half of it goes into two sentinels that hang.
HANGING_S = 2.0


@pytest.fixture(autouse=True)
def _nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_the_primary_is_killed_and_the_lock_works_with_the_replica(
    redis_sentinels: RedisSentinels,
) -> None:
    async with opened_both(redis_sentinels.url) as locks:
        for each in locks:
            assert await each.try_one() == Acquired()
        redis_sentinels.primary.crash()
        for each in locks:
            assert await each.try_one() == LockUnavailable()
            each.clock.let_probe()
        for each in locks:
            await until_it_works(each)


async def test_connections_to_a_frozen_primary_do_not_outlast_its_failover(
    redis_sentinels: RedisSentinels,
) -> None:
    """Each of them would cost a probe, and with it the time until the next."""
    async with opened_both(redis_sentinels.url) as locks:
        for each in locks:
            await all_at_once([each.try_one] * MANY)  # a connection each
        frozen = redis_sentinels.primary
        frozen.freeze()
        for each in locks:
            assert await each.try_one() == LockUnavailable()
        await until(lambda: redis_sentinels.has_replaced(frozen))
        for each in locks:
            each.clock.let_probe()
            assert await until_it_works(each) <= 1


@both_colours
async def test_sentinels_that_hang_leave_time_for_one_that_answers(
    redis_sentinels: RedisSentinels, colour: Colour
) -> None:
    for sentinel in redis_sentinels.sentinels[:2]:
        sentinel.freeze()
    async with opened(colour, redis_sentinels.url, HANGING_S) as each:
        assert await each.try_one() == Acquired()


@both_colours
async def test_sentinels_that_all_hang_cost_one_wait(
    redis_sentinels: RedisSentinels, colour: Colour
) -> None:
    for sentinel in redis_sentinels.sentinels:
        sentinel.freeze()

    async def is_quick() -> bool:
        async with opened(colour, redis_sentinels.url, WAIT_S) as each:
            results = await all_at_once([each.try_one] * MANY)
            later, later_s = await timed(each.try_one())
            assert {answer for answer, _ in results} | {later} == {LockUnavailable()}
            return longest_s(results) < ONE_WAIT_S and later_s < AT_ONCE_S

    await measured(is_quick)


@both_colours
async def test_a_service_that_the_sentinels_do_not_know_is_an_answer(
    redis_sentinels: RedisSentinels, colour: Colour
) -> None:
    async with opened(colour, redis_sentinels.url + "-else") as each:
        assert await each.try_one() == LockUnavailable()
