"""How a call ends, and how often it sends: the flow in a world without I/O."""

from __future__ import annotations

import pytest

from client.worlds import POLICY, SEND, WINDOW_S, world_of
from replayfloor.client.effects import Attempted, Send
from replayfloor.client.events import (
    AttemptEnded,
    AttemptStarted,
    Ending,
    JournalFailed,
    OperationEnded,
    WaitStarted,
)
from replayfloor.client.policy import RetryPolicy
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReleaseLease,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_world import START_NS, ClientWorld, SimulatedJournal


def _state(world: ClientWorld) -> OperationState:
    return world.journal.versions[-1].state


def test_an_answer_is_returned_and_the_operation_is_done() -> None:
    world = world_of()

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.RETURNED, Outcome.DEFINITIVE)
    assert (_state(world), verdict.entry.final_status) == (OperationState.DONE, 201)
    assert len(world.departures) == 1


@pytest.mark.parametrize("fate", [Fate.REPLY_LOST, Fate.BROKEN_GATEWAY, Fate.REQUEST_LOST])
def test_a_lost_answer_is_asked_for_again_with_the_same_key(fate: Fate) -> None:
    world = world_of(Attempt(fate), Attempt(fate))

    verdict = world.call()

    assert verdict.ending is Ending.RETURNED
    assert len(world.departures) == 3
    assert len(set(world.provider.executions)) == len(world.provider.executions) == 1


def test_if_nothing_left_the_librarys_own_failure_is_handed_over() -> None:
    world = world_of(*[Attempt(Fate.REFUSED)] * 3)

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.NOT_EXECUTED, Outcome.NOT_SENT)
    assert (world.departures, _state(world)) == ([], OperationState.OPEN)


def test_if_every_answer_was_a_refusal_the_last_one_is_returned() -> None:
    world = world_of(Attempt(Fate.REFUSED), *[Attempt(Fate.TURNED_AWAY)] * 2)

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.RETURNED, Outcome.REJECTED)
    assert _state(world) is OperationState.OPEN


@pytest.mark.parametrize("last", [Fate.REFUSED, Fate.TURNED_AWAY, Fate.IN_FLIGHT])
def test_nothing_that_follows_a_lost_answer_makes_it_unhappened(last: Fate) -> None:
    world = world_of(Attempt(Fate.REPLY_LOST), *[Attempt(last)] * 2)

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.PENDING, Outcome.UNKNOWN)
    assert _state(world) is OperationState.OPEN


def test_a_pending_operation_is_resumed_with_its_key_and_its_deadline() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    first = world.call()
    world.pass_time(10)

    second = world.call()

    assert (first.ending, second.ending) == (Ending.PENDING, Ending.RETURNED)
    assert (second.resumed, second.replayed) == (True, True)
    assert second.entry.key == first.entry.key
    assert second.entry.send_deadline_ns == first.entry.send_deadline_ns
    assert second.elapsed_s > first.elapsed_s + 10
    assert second.entry.attempts == 4
    assert len(world.provider.executions) == 1


def test_at_the_send_deadline_nothing_is_sent_and_the_operation_is_closed() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.call()
    world.now_ns = START_NS + int(WINDOW_S * 1e9)

    verdict = world.call()

    assert (verdict.ending, _state(world)) == (Ending.UNKNOWN, OperationState.UNKNOWN_FINAL)
    assert len(world.departures) == 3


def test_one_ns_before_the_send_deadline_it_is_sent() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.call()
    world.now_ns = START_NS + int(WINDOW_S * 1e9) - 1

    assert world.call().ending is Ending.RETURNED


def test_a_closed_operation_stays_closed_when_the_clock_goes_back() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.call()
    world.pass_time(WINDOW_S)
    world.call()
    world.now_ns = START_NS

    assert world.call().ending is Ending.UNKNOWN
    assert len(world.departures) == 3


def test_a_done_operation_is_asked_for_again_before_the_deadline() -> None:
    world = world_of()
    world.call()
    world.pass_time(WINDOW_S / 2)

    verdict = world.call()

    assert (verdict.ending, verdict.replayed) == (Ending.RETURNED, True)
    assert len(world.provider.executions) == 1


def test_a_done_operation_is_never_sent_after_the_deadline_whatever_the_clock_does_then() -> None:
    world = world_of()
    world.call()
    world.pass_time(WINDOW_S)
    closed = world.call()
    world.now_ns = START_NS

    assert (closed.ending, closed.entry.final_status) == (Ending.CLOSED, 201)
    assert world.call().ending is Ending.CLOSED
    assert (len(world.departures), _state(world)) == (1, OperationState.DONE)


def test_a_request_that_waited_past_the_deadline_for_a_connection_is_held_back() -> None:
    world = world_of(Attempt(pool_wait_s=WINDOW_S))

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.UNKNOWN, Outcome.NOT_SENT)
    assert (world.departures, _state(world)) == ([], OperationState.UNKNOWN_FINAL)


def test_no_wait_is_begun_that_ends_past_the_send_deadline() -> None:
    policy = RetryPolicy(attempts_max=3, wait_base_s=4, wait_cap_s=4, budget_s=1000)
    world = world_of(Attempt(Fate.REPLY_LOST, took_s=WINDOW_S - 2), policy=policy)

    verdict = world.call()

    assert (verdict.ending, world.waits_s) == (Ending.PENDING, [])
    assert world.now_ns < verdict.entry.send_deadline_ns


def test_no_wait_is_begun_that_does_not_fit_the_budget() -> None:
    policy = RetryPolicy(attempts_max=10, wait_base_s=2, wait_cap_s=2, budget_s=5)
    world = world_of(*[Attempt(Fate.REPLY_LOST, took_s=1)] * 10, policy=policy)

    verdict = world.call()

    assert verdict.ending is Ending.PENDING
    # Attempt 0-1 s, wait 1 s, attempt 2-3 s, wait 1 s, attempt 4-5 s; another wait would not fit.
    assert (len(world.departures), world.waits_s) == (3, [1.0, 1.0])


def test_a_wait_that_took_too_long_is_followed_by_no_attempt() -> None:
    class Oversleeping(ClientWorld):
        def pass_time(self, seconds: float) -> None:
            super().pass_time(seconds + (POLICY.budget_s if seconds == 0.5 else 0))

    world = world_of(Attempt(Fate.REPLY_LOST), kind=Oversleeping)

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)


def test_a_wait_took_its_time_even_if_the_clock_stood_still() -> None:
    class Stopped(ClientWorld):
        def pass_time(self, seconds: float) -> None:
            """The clock shows the same as before."""

    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 2, kind=Stopped)

    assert world.call().elapsed_s == sum(world.waits_s) > 0


def test_in_flight_waits_at_least_as_long_as_asked_and_counts_as_an_attempt() -> None:
    world = world_of(*[Attempt(Fate.IN_FLIGHT)] * 3)

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.PENDING, Outcome.IN_FLIGHT)
    assert world.waits_s == [2.5, 3.0]


def test_waits_grow_and_are_random() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.draw = 0.25

    world.call()

    assert world.waits_s == [0.25, 0.5]


def test_a_crash_while_sending_leaves_an_outcome_that_is_not_known() -> None:
    """The attempt is counted before it is sent, and its end is recorded after it."""
    world = world_of(Attempt(Fate.TURNED_AWAY), *[Attempt(Fate.REFUSED)] * 3)
    with pytest.raises(Crash):
        world.call(CrashPoint(SEND, after=True))

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.PENDING, Outcome.UNKNOWN)


def test_a_crash_between_two_calls_forgets_nothing_that_is_certain() -> None:
    world = world_of(*[Attempt(Fate.REFUSED)] * 6)
    world.call()

    assert world.call().ending is Ending.NOT_EXECUTED


def test_a_journal_that_is_down_stops_everything_before_the_first_byte() -> None:
    world = world_of()
    world.journal.down = True

    verdict = world.call()

    assert (verdict.ending, world.departures) == (Ending.JOURNAL_UNAVAILABLE, [])


def test_a_journal_that_fails_after_the_answer_does_not_take_it_away() -> None:
    world = _failing_after_send(Attempt())

    verdict = world.call()

    assert verdict.ending is Ending.RETURNED
    assert [type(event) for event in world.events].count(JournalFailed) == 1


def test_a_journal_that_fails_between_attempts_leaves_the_outcome_pending() -> None:
    world = _failing_after_send(Attempt(Fate.REPLY_LOST))

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert verdict.cause is not None


def _failing_after_send(attempt: Attempt) -> ClientWorld:
    class Failing(ClientWorld):
        def send(self, send: Send) -> Attempted:
            self.journal.down = True
            return super().send(send)

    return world_of(attempt, kind=Failing)


def test_a_resumed_operation_whose_attempt_cannot_be_counted_is_not_sent() -> None:
    class Failing(SimulatedJournal):
        full = False

        def start_attempt(self, effect: StartAttempt) -> JournalEntry:
            if self.full:
                raise StoreUnavailable("the disk is full")
            return super().start_attempt(effect)

    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.journal = journal = Failing()
    world.call()
    journal.full = True

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.JOURNAL_UNAVAILABLE, 3)


def test_a_deadline_is_kept_even_if_it_cannot_be_recorded() -> None:
    class Failing(SimulatedJournal):
        def close_operation(self, effect: CloseOperation) -> JournalEntry:
            raise StoreUnavailable("the disk is full")

    world = world_of(Attempt(pool_wait_s=WINDOW_S))
    world.journal = Failing()

    verdict = world.call()

    assert (verdict.ending, world.departures) == (Ending.UNKNOWN, [])
    assert any(isinstance(event, JournalFailed) for event in world.events)


def test_another_process_that_closes_the_operation_stops_this_one() -> None:
    """It closes the operation between this one's look at the clock and its send."""

    class Interrupted(SimulatedJournal):
        def start_attempt(self, effect: StartAttempt) -> JournalEntry:
            self.close_operation(
                CloseOperation(effect.namespace, effect.operation_id, effect.at_ns)
            )
            return super().start_attempt(effect)

    world = world_of(Attempt(Fate.REPLY_LOST))
    world.journal = Interrupted()

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.UNKNOWN, 1)


def test_an_attempt_of_another_process_makes_this_ones_knowledge_uncertain() -> None:
    """It began when our lease had run out, and nobody knows whether it was executed."""

    class Joined(SimulatedJournal):
        def end_attempt(self, effect: EndAttempt) -> JournalEntry:
            place = (effect.namespace, effect.operation_id)
            self.release_lease(ReleaseLease(*place, effect.lease_owner))
            self.start_attempt(StartAttempt(*place, effect.at_ns))
            return super().end_attempt(effect)

    world = world_of(*[Attempt(Fate.REFUSED)] * 3)
    world.journal = Joined()

    assert world.call().ending is Ending.PENDING


def test_events_tell_the_story_in_order() -> None:
    world = world_of(Attempt(Fate.BROKEN_GATEWAY))

    world.call()

    kinds = [type(event) for event in world.events]
    assert kinds == [
        AttemptStarted,
        AttemptEnded,
        WaitStarted,
        AttemptStarted,
        AttemptEnded,
        OperationEnded,
    ]
    assert [event.attempt for event in world.events] == [1, 1, 1, 2, 2, 2]
    assert [event.status for event in world.events] == [None, 502, None, None, 201, 201]
    assert {event.provider for event in world.events} == {"provider"}
    elapsed = [event.elapsed_s for event in world.events]
    assert elapsed == sorted(elapsed)


def test_elapsed_time_in_events_counts_from_the_first_attempt_of_the_first_process() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    world.call()
    world.pass_time(20)
    world.events.clear()

    world.call()

    started = world.events[0]
    assert isinstance(started, AttemptStarted)
    assert started.elapsed_s > 20
    assert (started.attempt, started.resumed) == (4, True)
