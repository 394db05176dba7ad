"""Several calls of one operation, in every order: crashes, ended leases, clocks that are set.

The worlds are small and every schedule of them is visited. Each protection is taken away once, and
a schedule must be found that shows it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from client.worlds import (
    PROFILE,
    Amnesiac,
    Forgetful,
    KeyPerAttempt,
    Uncounted,
    WithoutLatch,
    WithoutLease,
    WriteBehind,
)
from replayfloor.client.events import Ending
from replayfloor.client.policy import RetryPolicy
from replayfloor.testing.client_faults import Attempt, Fate
from replayfloor.testing.client_schedules import SIMULTANEOUS, UNTRUE, Leap, Scenario, visit
from replayfloor.testing.client_world import (
    START_NS,
    ClientWorld,
    SimulatedJournal,
    violations,
)
from replayfloor.testing.explore import Chooser, Report, explore

# The lease is short, so that a call that waits for another looks only a few times.
POLICY = RetryPolicy(attempts_max=2, wait_base_s=0.1, wait_cap_s=4, budget_s=40, lease_s=0.2)
TOOK_S = 0.1

LEASE_ENDS = Leap("everything stands still for a second", stands_still_s=1)
DEADLINE = Leap("everything stands still for a minute", stands_still_s=60)
SET_BACK = Leap("the wall clock is set back an hour", wall_step_s=-3600)
BOOT = Leap(
    "the machine is off for minutes, and boots with a clock that is behind",
    stands_still_s=200,
    wall_step_s=-210,
    boots=True,
)


def _explore(
    fates: list[Fate],
    scenario: Scenario,
    *,
    kind: type[ClientWorld] = ClientWorld,
    journal: type[SimulatedJournal] = SimulatedJournal,
) -> tuple[Report, Counter[Ending]]:
    endings: Counter[Ending] = Counter()

    def run(chooser: Chooser) -> None:
        attempts = [Attempt(fate, took_s=TOOK_S) for fate in fates]
        world = kind(PROFILE, POLICY, attempts, journal=journal())
        endings.update(each.ending for each in visit(world, scenario, chooser))

    return explore(run), endings


@pytest.mark.parametrize("fate", Fate)
def test_of_two_calls_at_once_one_sends_and_both_get_the_answer(fate: Fate) -> None:
    report, endings = _explore([fate], Scenario(calls=2, crashes=0))

    assert report.shortest is None
    assert report.schedules > 1
    assert set(endings) == {Ending.RETURNED}


@pytest.mark.parametrize("fate", [Fate.ANSWERED, Fate.REPLY_LOST])
def test_a_lease_that_ends_while_its_call_stands_still_costs_nothing(fate: Fate) -> None:
    report, endings = _explore([fate], Scenario(calls=2, crashes=0, leaps=(LEASE_ENDS,)))

    assert report.shortest is None
    assert set(endings) == {Ending.RETURNED}


@pytest.mark.parametrize("fate", [Fate.ANSWERED, Fate.REFUSED])
def test_when_one_of_two_calls_dies_anywhere_the_others_go_on(fate: Fate) -> None:
    report, endings = _explore([fate], Scenario(calls=2, crashes=1))

    assert report.shortest is None
    assert report.schedules > 1000
    assert set(endings) == {Ending.RETURNED}


@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("leap", [DEADLINE, SET_BACK, BOOT], ids=["late", "set back", "boot"])
def test_a_call_that_dies_while_the_clocks_do_anything_is_resumed_truthfully(
    fate: Fate, leap: Leap
) -> None:
    scenario = Scenario(calls=1, crashes=1, leaps=(leap,))
    report, endings = _explore([fate, Fate.REFUSED], scenario)

    assert report.shortest is None
    late = Ending.UNKNOWN if leap is DEADLINE else Ending.PENDING
    assert endings[late] > 0


def test_without_a_lease_two_requests_are_under_way_at_once() -> None:
    report, _ = _explore([], Scenario(calls=2, crashes=0), journal=WithoutLease)

    assert report.shortest is not None
    assert report.shortest.promise == SIMULTANEOUS


def test_a_key_made_inside_the_loop_is_found() -> None:
    report, _ = _explore([Fate.REPLY_LOST], Scenario(calls=1, crashes=0), kind=KeyPerAttempt)

    assert report.shortest is not None
    assert "more than one key was sent" in report.shortest.promise


def test_writing_behind_is_found() -> None:
    report, _ = _explore([Fate.REPLY_LOST], Scenario(calls=1, crashes=1), kind=WriteBehind)

    assert report.shortest is not None
    assert "a request left before its entry was in the journal" in report.shortest.promise


def test_a_journal_that_forgets_how_late_it_was_is_found() -> None:
    """The clock of the machine that boots is set back behind what the journal had seen."""
    scenario = Scenario(calls=1, crashes=0, leaps=(BOOT,))

    forgetful, _ = _explore([Fate.REPLY_LOST], scenario, journal=Forgetful)
    faithful, _ = _explore([Fate.REPLY_LOST], scenario)

    assert forgetful.shortest is not None
    assert "it was executed more than once" in forgetful.shortest.promise
    assert faithful.shortest is None


def test_a_missing_latch_is_found() -> None:
    """Closed after the deadline, and then the machine boots with a clock that is behind."""
    unlatched = _close_and_boot(WithoutLatch())
    latched = _close_and_boot(SimulatedJournal())

    assert "a request left at or past the send deadline" in violations(unlatched)
    assert violations(latched) == []
    assert len(latched.departures) == POLICY.attempts_max


def _close_and_boot(journal: SimulatedJournal) -> ClientWorld:
    world = ClientWorld(PROFILE, POLICY, [Attempt(Fate.REPLY_LOST)] * 2, journal=journal)
    world.call()
    world.pass_time(60)
    closed = world.call()
    world.now_ns = START_NS
    world.restart("boot-2")
    world.call()
    assert closed.ending is Ending.UNKNOWN
    return world


@pytest.mark.parametrize("journal", [Amnesiac, Uncounted])
def test_knowledge_that_is_lost_makes_a_call_say_what_is_not_true(
    journal: type[SimulatedJournal],
) -> None:
    fates = [Fate.REPLY_LOST, Fate.REFUSED, Fate.REFUSED, Fate.REFUSED]
    scenario = Scenario(calls=1, crashes=1)

    lossy, _ = _explore(fates, scenario, journal=journal)
    faithful, _ = _explore(fates, scenario)

    assert lossy.shortest is not None
    assert lossy.shortest.promise == UNTRUE
    assert faithful.shortest is None
