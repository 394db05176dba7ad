"""What an outage of one Redis costs: one short wait, and then nothing until it is over."""

from __future__ import annotations

import logging
from functools import partial

import anyio
import pytest

from replayfloor.core.claims import Acquire, Acquired, Extend, Held, LockUnavailable, Release
from replayfloor.server.locks.redis_limits import LOCK_S, ROUND_TRIPS_MAX
from replayfloor.testing.contract import LONG_MS, REQUEST
from server.black_hole import black_hole
from server.redis_locks import (
    AT_ONCE_S,
    ONE_WAIT_S,
    PATIENT_S,
    WAIT_S,
    Colour,
    Opened,
    all_at_once,
    both_colours,
    longest_s,
    measured,
    opened,
    request,
    scripts_run,
    timed,
    until_it_works,
)
from support.services import Redis

pytestmark = pytest.mark.anyio

MANY = 64
SOME = 8
TRIES = 20
# Long enough that so few requests are answered in time, on a busy machine as well.
DEAD_S = 1.5
# Less than it takes until a primary counts as failed.
SHORT_S = 0.2


@both_colours
async def test_a_server_that_died_is_an_answer_and_after_its_restart_it_is_asked_again(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url) as each:
        first = request()
        assert await each.lock.acquire(first) == Acquired()
        redis_server.crash()

        assert await each.try_one() == LockUnavailable()
        assert not await each.lock.release(Release(first.id, first.fence))
        assert not await each.lock.extend(Extend(first.id, first.fence, LONG_MS))
        redis_server.start()
        each.clock.let_probe()
        assert isinstance(await each.try_one(first.id), Held)


@both_colours
async def test_no_round_trip_is_made_until_the_time_to_try_again_has_come(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url) as each:
        await each.try_one()
        redis_server.crash()
        await each.try_one()
        redis_server.start()

        first = request()
        assert await each.lock.acquire(first) == LockUnavailable()
        assert not await each.lock.release(Release(first.id, first.fence))
        assert not await each.lock.extend(Extend(first.id, first.fence, LONG_MS))
        assert scripts_run(redis_server.port) == 0
        each.clock.let_probe()
        assert await each.try_one() == Acquired()
        assert scripts_run(redis_server.port) > 0


@both_colours
async def test_simultaneous_requests_wait_once_for_a_frozen_server_and_later_ones_not_at_all(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url, WAIT_S) as each:

        async def is_quick() -> bool:
            redis_server.thaw()
            await until_it_works(each)
            redis_server.freeze()
            during = await all_at_once([each.try_one] * MANY)
            after = await all_at_once([each.try_one] * MANY)
            assert {answer for answer, _ in during + after} == {LockUnavailable()}
            return longest_s(during) < ONE_WAIT_S and longest_s(after) < AT_ONCE_S

        await measured(is_quick)


@both_colours
async def test_only_one_request_waits_for_a_server_that_is_tried_again(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url, WAIT_S) as each:
        await all_at_once([each.try_one] * MANY)
        redis_server.freeze()
        await each.try_one()

        async def is_quick() -> bool:
            each.clock.let_probe()
            results = await all_at_once([each.try_one] * MANY)
            assert {answer for answer, _ in results} == {LockUnavailable()}
            return sum(took_s > AT_ONCE_S for _, took_s in results) == 1

        await measured(is_quick)


@both_colours
async def test_a_probe_that_fails_leaves_the_server_alone_for_as_long_again(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url) as each:
        redis_server.freeze()
        await each.try_one()
        each.clock.let_probe()
        await each.try_one()
        redis_server.thaw()

        assert await each.try_one() == LockUnavailable()
        each.clock.let_probe()
        assert await each.try_one() == Acquired()


@both_colours
async def test_connections_that_went_dead_cost_one_wait_and_not_one_each(
    redis_server: Redis, colour: Colour
) -> None:
    with black_hole(redis_server.port) as hole:
        async with opened(colour, f"redis://127.0.0.1:{hole.port}/0", DEAD_S) as each:
            await all_at_once([each.try_one] * SOME)  # so many connections
            hole.swallow()
            assert await each.try_one() == LockUnavailable()
            each.clock.let_probe()
            assert await each.try_one() == Acquired()
            results = await all_at_once([each.try_one] * SOME)

            assert {answer for answer, _ in results} == {Acquired()}


@pytest.fixture(params=["one server", "sentinels", "cluster"])
def form(request: pytest.FixtureRequest) -> tuple[str, list[Redis]]:
    """The URL of a form of Redis, and its servers."""
    match request.param:
        case "one server":
            server = request.getfixturevalue("redis_server")
            return server.url, [server]
        case "sentinels":
            sentinels = request.getfixturevalue("redis_sentinels")
            return sentinels.url, sentinels.servers
        case _:
            cluster = request.getfixturevalue("redis_cluster")
            return cluster.url, cluster.nodes


@both_colours
async def test_after_timeouts_the_answers_still_belong_to_their_questions(
    form: tuple[str, list[Redis]], colour: Colour
) -> None:
    """A reply that comes too late must not be taken for the reply to the next command."""
    url, servers = form
    async with opened(colour, url, SHORT_S) as each:
        held = [request() for _ in range(8)]
        for one in held:
            await until_acquired(each, one)
        for server in servers:
            server.freeze()
        await all_at_once([each.try_one] * len(held))
        for server in servers:
            server.thaw()
        each.clock.let_probe()

        for one in held:
            await until_acquired(each, request())
            answer = await each.try_one(one.id)
            assert isinstance(answer, Held)
            assert answer.fingerprint == REQUEST
            assert await each.lock.release(Release(one.id, one.fence))


async def until_acquired(each: Opened, one: Acquire) -> None:
    """Acquire a lock that is free, however often the machine pauses."""
    for _ in range(TRIES):
        answer = await each.lock.acquire(one)
        if answer != LockUnavailable():
            assert answer == Acquired()
            return
        each.clock.let_probe()
    raise AssertionError("the lock does not answer")


async def test_after_cancellations_the_answers_still_belong_to_their_questions(
    redis_server: Redis,
) -> None:
    async with opened("async", redis_server.url) as each:
        held = [request() for _ in range(8)]
        await all_at_once([partial(each.lock.acquire, one) for one in held])
        redis_server.freeze()
        with anyio.move_on_after(LOCK_S / 10):
            await all_at_once([each.try_one] * len(held))
        redis_server.thaw()

        for one in held:
            assert await each.try_one() == Acquired()
            assert isinstance(await each.try_one(one.id), Held)


@both_colours
async def test_more_requests_than_connections_are_allowed_all_get_their_answer(
    redis_server: Redis, colour: Colour
) -> None:
    async with opened(colour, redis_server.url, PATIENT_S) as each:
        results = await all_at_once([each.try_one] * (4 * ROUND_TRIPS_MAX))

        assert {answer for answer, _ in results} == {Acquired()}


@both_colours
async def test_the_log_tells_once_that_the_lock_fails_and_once_that_it_answers_again(
    redis_server: Redis, colour: Colour, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replayfloor.server")
    async with opened(colour, redis_server.url) as each:
        await each.try_one()
        redis_server.freeze()
        await all_at_once([each.try_one] * MANY)
        each.clock.let_probe()
        await each.try_one()
        redis_server.thaw()
        each.clock.let_probe()
        await all_at_once([each.try_one] * MANY)

    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert "Timeout" in told[0][1]
    assert "answers again" in told[1][1]


@both_colours
async def test_a_host_that_cannot_be_reached_costs_one_wait(colour: Colour) -> None:
    # Reserved for documentation (RFC 5737): nothing is there, or a router says so at once.
    async with opened(colour, "redis://192.0.2.1:6379/0", WAIT_S) as each:

        async def is_quick() -> bool:
            each.clock.let_probe()
            first, first_s = await timed(each.try_one())
            second, second_s = await timed(each.try_one())
            assert (first, second) == (LockUnavailable(), LockUnavailable())
            return first_s < ONE_WAIT_S and second_s < AT_ONCE_S

        await measured(is_quick)
