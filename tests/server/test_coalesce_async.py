"""What tasks ask at the same time goes together, and nobody pays for a neighbour."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from replayfloor.server.coalesce_async import Coalescer

pytestmark = pytest.mark.anyio


class RoundTrips:
    """A store whose round trips end when told, and that fails for what begins with "bad"."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_end = asyncio.Semaphore(0)

    async def perform(self, asked: Sequence[str]) -> Sequence[str | Exception]:
        self.batches.append(list(asked))
        await self.may_end.acquire()
        if "break" in asked:
            raise ConnectionError("the link is down")
        return [ValueError(one) if one.startswith("bad") else one.upper() for one in asked]


def ask(coalescer: Coalescer[str, str], *asked: str) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(coalescer.ask(one.encode(), one)) for one in asked]


@pytest.fixture
def trips() -> RoundTrips:
    return RoundTrips()


@pytest.fixture
def coalescer(trips: RoundTrips) -> Coalescer[str, str]:
    return Coalescer(trips.perform, entries_max=4)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_is_alone_waits_for_nobody(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    trips.may_end.release()

    assert await coalescer.ask(b"a", "a") == "A"

    assert trips.batches == [["a"]]


async def test_what_arrives_during_a_round_trip_goes_into_the_next_one(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    first = ask(coalescer, "a")
    await settle()
    later = ask(coalescer, "d", "c", "b")
    await settle()
    trips.may_end.release()
    trips.may_end.release()

    assert await asyncio.gather(*first, *later) == ["A", "D", "C", "B"]

    assert trips.batches == [["a"], ["b", "c", "d"]]


async def test_a_batch_takes_the_oldest_and_no_more_than_its_limit(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    ask(coalescer, "z")
    await settle()
    tasks = ask(coalescer, *"987654321")
    await settle()
    for _ in range(4):
        trips.may_end.release()

    assert await asyncio.gather(*tasks) == [*"987654321"]

    assert trips.batches == [["z"], [*"6789"], [*"2345"], ["1"]]


async def test_two_operations_of_one_key_go_one_after_the_other(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    ask(coalescer, "z")
    await settle()
    tasks = [
        asyncio.create_task(coalescer.ask(b"same", asked)) for asked in ("first", "second")
    ] + ask(coalescer, "other")
    await settle()
    for _ in range(3):
        trips.may_end.release()
    await asyncio.gather(*tasks)

    assert trips.batches == [["z"], ["other", "first"], ["second"]]


async def test_the_failure_of_one_is_not_that_of_its_neighbours(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    tasks = ask(coalescer, "a", "bad", "c")
    trips.may_end.release()

    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert outcomes[0] == "A"
    assert isinstance(outcomes[1], ValueError)
    assert outcomes[2] == "C"


async def test_a_broken_link_is_told_to_everybody_and_the_next_batch_is_tried(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    broken = ask(coalescer, "a", "break")
    await settle()
    next_one = ask(coalescer, "c")
    trips.may_end.release()
    trips.may_end.release()

    outcomes = await asyncio.gather(*broken, return_exceptions=True)

    assert all(isinstance(outcome, ConnectionError) for outcome in outcomes)
    assert await next_one[0] == "C"


async def test_what_is_cancelled_before_its_turn_is_never_performed(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    ask(coalescer, "z")
    await settle()
    cancelled, other = ask(coalescer, "cancelled", "other")
    await settle()
    cancelled.cancel()
    for _ in range(2):
        trips.may_end.release()

    assert await other == "OTHER"
    assert cancelled.cancelled()
    assert trips.batches == [["z"], ["other"]]


async def test_a_cancellation_waits_for_the_end_of_what_is_under_way(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    cancelled, other = ask(coalescer, "a", "b")
    await settle()
    for _ in range(3):  # however often
        cancelled.cancel()
        await settle()
    assert not cancelled.done()
    trips.may_end.release()

    assert await other == "B"
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_nothing_is_forgotten_that_is_put_in_while_a_lane_ends(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    """Between the last look at what waits and the end of the task, no step may pass."""
    for _ in range(200):
        trips.may_end.release()
    for number in range(100):
        async with asyncio.timeout(5):
            await coalescer.ask(b"a", str(number))
            await coalescer.ask(b"a", str(number))

    assert len(trips.batches) == 200


async def test_draining_waits_for_what_nobody_waits_for(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    coalescer.put(b"a", "a")
    coalescer.put(b"a", "again")
    trips.may_end.release()
    trips.may_end.release()

    await coalescer.drain()

    assert trips.batches == [["a"], ["again"]]


async def test_who_is_cancelled_between_the_answer_and_its_reading_waits_for_nothing() -> None:
    class Answers(list[str]):
        def __iter__(self) -> Iterator[str]:
            yield "A"
            cancelled.cancel()  # its answer was set just now, and it has not run since
            yield "B"

    async def perform(asked: Sequence[str]) -> Sequence[str]:
        return Answers(asked)

    cancelled, other = ask(Coalescer(perform, entries_max=4), "a", "b")
    async with asyncio.timeout(2):
        await asyncio.wait([cancelled, other])

    assert cancelled.cancelled()
    assert other.result() == "B"


async def test_each_of_a_failed_batch_has_a_failure_of_its_own(
    trips: RoundTrips, coalescer: Coalescer[str, str]
) -> None:
    tasks = ask(coalescer, "a", "break")
    trips.may_end.release()

    first, second = await asyncio.gather(*tasks, return_exceptions=True)

    assert type(first) is type(second) is ConnectionError
    assert first is not second
