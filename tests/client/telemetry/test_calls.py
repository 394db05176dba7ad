"""What a sink keeps of a call: its own, of the innermost call, in its thread or task. And the
event of the moment at which an attempt leaves."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint

from client.clients import PATIENCE_S, START_NS
from client.telemetry.observed import facts
from replayfloor.client.events import AttemptLeft, AttemptStarted, left
from replayfloor.client.telemetry.calls import Calls
from replayfloor.core.outcome import Outcome


def test_a_call_inside_another_has_a_state_of_its_own() -> None:
    calls = Calls[str]()
    with calls.entered("outer"):
        with calls.entered("inner"):
            assert calls.current() == "inner"
        assert calls.current() == "outer"
    assert calls.current() is None


def test_two_sinks_know_nothing_of_each_other() -> None:
    one, other = Calls[str](), Calls[str]()
    with one.entered("one"):
        assert other.current() is None
        with other.entered("other"):
            assert (one.current(), other.current()) == ("one", "other")


def test_a_call_that_raises_is_over() -> None:
    calls = Calls[str]()
    with pytest.raises(KeyboardInterrupt), calls.entered("call"):
        raise KeyboardInterrupt

    assert calls.current() is None


def test_another_thread_is_not_in_the_call() -> None:
    calls, seen = Calls[str](), list[object]()
    with calls.entered("call"):
        thread = threading.Thread(target=lambda: seen.append(calls.current()))
        thread.start()
        thread.join(PATIENCE_S)

    assert seen == [None]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_tasks_that_take_turns_are_each_in_their_own_call() -> None:
    calls, seen = Calls[int](), dict[int, set[int | None]]()

    async def call(number: int) -> None:
        with calls.entered(number):
            for _ in range(5):
                seen.setdefault(number, set()).add(calls.current())
                await checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(call, number)

    assert seen == {number: {number} for number in range(10)}


def test_an_attempt_leaves_with_the_facts_of_its_start_at_a_later_moment() -> None:
    started = AttemptStarted(**facts(attempt=3, outcome=Outcome.REJECTED, elapsed_s=2.0))

    told = left(started, START_NS + 10**9, 3.0)

    expected = facts(attempt=3, outcome=Outcome.REJECTED, elapsed_s=3.0)
    expected["at_ns"] = START_NS + 10**9
    assert told == AttemptLeft(**expected)


def test_an_attempt_never_leaves_before_it_was_started() -> None:
    assert left(AttemptStarted(**facts(elapsed_s=2.0)), START_NS, 1.0).elapsed_s == 2.0
