"""How much time has passed: three clocks, none of which is trusted alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from client.worlds import PROFILE, world_of
from replayfloor.client import clock
from replayfloor.client.clock import boot_id, look, system_clock
from replayfloor.client.effects import Moment, Send
from replayfloor.client.elapsed import behind_s, elapsed_ns, is_late
from replayfloor.client.events import ClockWentBack, DeadlineFence, Ending
from replayfloor.core.journal import OperationState
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Fate
from replayfloor.testing.client_world import START_NS
from replayfloor.testing.journal_contract import ENTRY

S = 10**9
AT_NS = ENTRY.first_attempt_at_ns
BOOTED = replace(ENTRY, boot_id="boot-1", first_boot_ns=500 * S, elapsed_ns=7 * S)


@pytest.mark.parametrize(
    ("moment", "elapsed_s"),
    [
        (Moment(AT_NS + 10 * S, 509 * S, "boot-1"), 10),  # the wall clock knows most
        (Moment(AT_NS + 10 * S, 520 * S, "boot-1"), 20),  # the boot's clock does
        (Moment(AT_NS + 10 * S, 900 * S, "boot-2"), 10),  # of another boot, it says nothing
        (Moment(AT_NS + 10 * S, 900 * S, ""), 10),  # nor without a name
        (Moment(AT_NS + 5 * S, 501 * S, "boot-1"), 7),  # the journal knows most
        (Moment(AT_NS - 50 * S, 100 * S, "boot-1"), 7),
    ],
)
def test_the_longest_time_that_any_clock_knows_counts(moment: Moment, elapsed_s: int) -> None:
    assert elapsed_ns(BOOTED, moment) == elapsed_s * S


def test_an_entry_without_a_boot_is_not_of_the_same_boot_as_a_clock_without_one() -> None:
    assert elapsed_ns(ENTRY, Moment(AT_NS + S, 10**18, "")) == S


@pytest.mark.parametrize(("back_s", "seen"), [(0.0, None), (1.0, None), (1.5, 1.5), (60.0, 60.0)])
def test_a_wall_clock_that_went_back_is_noticed(back_s: float, seen: float | None) -> None:
    assert behind_s(AT_NS, Moment(AT_NS - int(back_s * S))) == seen


def test_the_fence_counts_on_from_the_last_look_if_the_wall_clock_is_set_back() -> None:
    send = Send(
        key="k",
        now_ns=AT_NS,
        seen=Moment(AT_NS, 500 * S, "boot-1"),
        send_deadline_ns=AT_NS + 10 * S,
        timeout_s=1,
        first_attempt_at_ns=AT_NS,
    )

    assert not is_late(send, Moment(AT_NS + 9 * S, 509 * S, "boot-1"))
    assert is_late(send, Moment(AT_NS + 10 * S, 501 * S, "boot-1"))
    assert is_late(send, Moment(AT_NS - 3600 * S, 510 * S, "boot-1"))
    assert not is_late(send, Moment(AT_NS - 3600 * S, 510 * S, ""))


# -- the flow -------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_between_two_attempts_stops_the_call() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    step = world.pass_time

    def set_back(seconds: float) -> None:
        step(seconds)
        world.now_ns = START_NS - 3600 * S

    world.pass_time = set_back  # type: ignore[method-assign]

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert "the wall clock went back by 360" in verdict.detail
    (event,) = [each for each in world.events if isinstance(each, ClockWentBack)]
    assert event.behind_s >= 3600


def test_a_clock_that_is_set_back_before_anything_was_sent_leaves_that_certain() -> None:
    world = world_of(*[Attempt(Fate.REFUSED)] * 3)
    world.call()
    world.now_ns -= 60 * S

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.PENDING, Outcome.NOT_SENT)
    world.now_ns += 60 * S
    assert world.call().ending is Ending.RETURNED


def test_a_clock_that_went_back_when_the_time_is_over_closes_the_operation() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.call()
    world.pass_time(PROFILE.send_window_s)
    world.now_ns = START_NS - S

    assert world.call().ending is Ending.UNKNOWN
    assert world.journal.versions[-1].state is OperationState.UNKNOWN_FINAL
    (event,) = [each for each in world.events if isinstance(each, DeadlineFence)]
    assert not event.begun


# -- the machine's --------------------------------------------------------------------------------


def test_the_machines_clocks_go_forward_and_name_their_boot() -> None:
    first, second = system_clock(), system_clock()

    assert abs(first.wall_ns - time.time_ns()) < 60 * S
    assert second.boot_ns >= first.boot_ns > 0
    assert first.boot_id == second.boot_id != ""


def test_two_processes_of_one_boot_name_it_alike() -> None:
    program = "from replayfloor.client.clock import boot_id; print(boot_id(), end='')"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert (told.stdout.decode() == boot_id()) is os.path.exists(clock._BOOT_ID)


def test_a_machine_without_such_a_clock_has_one_per_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "_BOOT_CLOCK", None)
    boot_id.cache_clear()

    first = system_clock()

    assert first.boot_id == system_clock().boot_id
    boot_id.cache_clear()
    assert system_clock().boot_id != first.boot_id
    boot_id.cache_clear()


def test_a_clock_that_knows_the_wall_alone_has_no_boot() -> None:
    assert look(lambda: 5) == Moment(5, 0, "")
