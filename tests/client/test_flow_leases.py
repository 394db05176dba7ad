"""Waiting for another call's lease, which ends by the journal's clock and not by the one here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.worlds import POLICY, PROFILE, SEND, WINDOW_S, world_of
from replayfloor.client.events import Ending, WaitStarted
from replayfloor.client.flow_begin import LEASE_WAIT_MIN_S
from replayfloor.client.policy import LEASE_POLL_CAP_S, RetryPolicy, lease_poll_s
from replayfloor.core.journal import (
    EndAttempt,
    JournalEntry,
    ReadOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_schedules import Leap, Scenario, visit
from replayfloor.testing.client_world import START_NS, ClientWorld
from replayfloor.testing.explore import Chooser, explore
from replayfloor.testing.journal_simulated import SimulatedJournal

HOUR_NS = 3600 * 10**9
PLACE = (PROFILE.namespace, "invoice-1")
OTHER = b"another call's."
PATIENT = RetryPolicy(attempts_max=3, wait_base_s=1, wait_cap_s=4, budget_s=45, lease_s=30)
LOOKS_MAX = 60
"""More than the looks at a lease of 30 s that get rarer up to one in a second."""


class _Counting(SimulatedJournal):
    """A journal that counts how often it is asked."""

    def __init__(self, ahead_ns: int = 0) -> None:
        super().__init__()
        self.ahead_ns = ahead_ns
        self.starts = 0
        self.reads = 0

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        self.starts += 1
        assert self.starts < LOOKS_MAX, "it spins"
        return super().start_attempt(effect)

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        self.reads += 1
        assert self.reads < LOOKS_MAX, "it spins"
        return super().read(effect)


def _crashed(policy: RetryPolicy, ahead_ns: int) -> tuple[ClientWorld, _Counting]:
    """A world in which a call has died while it was sending, with its lease."""
    world = world_of(Attempt(Fate.REPLY_LOST), policy=policy)
    world.journal = journal = _Counting(ahead_ns)
    with pytest.raises(Crash):
        world.call(CrashPoint(SEND, after=True))
    return world, journal


def test_a_clock_that_is_ahead_of_the_journals_makes_nobody_spin() -> None:
    """Here the lease has ended long ago, and the journal says for 30 s that it has not."""
    world, _ = _crashed(PATIENT, -HOUR_NS)

    verdict = world.call()

    assert verdict.ending is Ending.RETURNED
    assert min(world.waits_s) >= LEASE_WAIT_MIN_S
    assert PATIENT.lease_s <= sum(world.waits_s) < PATIENT.lease_s + 2 * LEASE_POLL_CAP_S
    assert world.waits_s == [lease_poll_s(look) for look in range(len(world.waits_s))]
    (told,) = [event for event in world.events if isinstance(event, WaitStarted)]
    assert told.wait_s >= LEASE_WAIT_MIN_S


def test_a_clock_that_is_behind_the_journals_does_not_wait_for_it_to_catch_up() -> None:
    """Here the lease lasts an hour and more; by the journal's clock it ends after 30 s."""
    world, journal = _crashed(PATIENT, HOUR_NS)

    verdict = world.call()

    assert verdict.ending is Ending.RETURNED
    assert PATIENT.lease_s <= sum(world.waits_s) < PATIENT.lease_s + 2 * LEASE_POLL_CAP_S
    # The refused ones, and the one that got it.
    assert journal.starts <= 3


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
def test_whatever_the_clocks_show_a_call_waits_no_longer_than_its_budget(ahead_ns: int) -> None:
    world, _ = _crashed(replace(PATIENT, budget_s=5), ahead_ns)

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert 5 - 2 * LEASE_POLL_CAP_S < sum(world.waits_s) < 5


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
def test_whatever_the_clocks_show_no_wait_ends_past_the_send_deadline(ahead_ns: int) -> None:
    world, _ = _crashed(replace(PATIENT, budget_s=1000), ahead_ns)
    world.pass_time(WINDOW_S - 5)
    world.journal.ahead_ns -= int(WINDOW_S - 5) * 10**9  # so that the lease goes on

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert world.now_ns < verdict.entry.send_deadline_ns


def test_the_end_of_a_lease_is_not_waited_for_by_the_nanosecond() -> None:
    world, journal = _crashed(POLICY, 0)
    (entry,) = journal.pending()
    world.now_ns = entry.lease_until_ns - 1

    verdict = world.call()

    assert (verdict.ending, world.waits_s) == (Ending.RETURNED, [LEASE_WAIT_MIN_S])


def test_a_lease_that_only_seems_to_last_is_renewed_before_a_wait_that_is_longer() -> None:
    """The journal's clock is ahead of the one here, which then shows an hour too much."""
    policy = RetryPolicy(attempts_max=3, wait_base_s=4, wait_cap_s=4, budget_s=40, lease_s=1)
    world = world_of(Attempt(Fate.TURNED_AWAY), policy=policy)
    world.journal.ahead_ns = HOUR_NS

    world.call()

    waiting = [entry for entry in world.journal.versions if entry.attempts == 1]
    assert max(entry.lease_until_ns for entry in waiting) > START_NS + HOUR_NS + 2 * 10**9


def test_what_another_call_does_while_this_one_waits_for_it_is_heard() -> None:
    """Nothing had left before the wait, and something may have when the budget ends in it."""

    class Sending(ClientWorld):
        waited = False

        def pass_time(self, seconds: float) -> None:
            super().pass_time(seconds)
            if self.waited:
                self.waited = False
                again = StartAttempt(*PLACE, self.now_ns, 0, OTHER, PATIENT.lease_s)
                assert self.journal.start_attempt(again).attempts == 3

    policy = replace(PATIENT, attempts_max=1, budget_s=5)
    world = Sending(PROFILE, policy, [Attempt(Fate.REFUSED)])
    first = world.call()
    world.journal.start_attempt(StartAttempt(*PLACE, world.now_ns, 0, OTHER, PATIENT.lease_s))
    refused = EndAttempt(*PLACE, world.now_ns, Outcome.NOT_SENT, "refused", lease_owner=OTHER)
    before = world.journal.end_attempt(refused)
    world.waited = True

    second = world.call()

    assert first.outcome is before.known is Outcome.NOT_SENT
    assert (second.ending, second.outcome) == (Ending.PENDING, Outcome.UNKNOWN)


# -- every schedule -------------------------------------------------------------------------------

SHORT = RetryPolicy(attempts_max=2, wait_base_s=0.1, wait_cap_s=4, budget_s=40, lease_s=0.2)
LEASE_ENDS = Leap("everything stands still for a second", stands_still_s=1)


@pytest.mark.parametrize("fate", [Fate.ANSWERED, Fate.REFUSED])
@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(calls=1, crashes=1),
        Scenario(calls=2, crashes=0, leaps=(LEASE_ENDS,)),
        pytest.param(Scenario(calls=2, crashes=1), marks=pytest.mark.slow),
    ],
    ids=["dies", "stands still", "one of two dies"],
)
def test_however_wrong_the_clock_is_one_sends_at_a_time_and_all_get_the_answer(
    scenario: Scenario, ahead_ns: int, fate: Fate
) -> None:
    endings: set[Ending] = set()

    def run(chooser: Chooser) -> None:
        journal = SimulatedJournal()
        journal.ahead_ns = ahead_ns
        world = ClientWorld(PROFILE, SHORT, [Attempt(fate)], journal=journal)
        endings.update(each.ending for each in visit(world, scenario, chooser))

    report = explore(run)

    assert report.shortest is None
    assert report.schedules > 1
    assert endings == {Ending.RETURNED}
