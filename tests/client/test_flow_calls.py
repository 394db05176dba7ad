"""What a call finds that others have left behind: a lease, an answer, a settlement, a burnt key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.worlds import POLICY, PROFILE, SEND, WINDOW_S, world_of
from replayfloor.client.effects import Attempted, Failure, Reply, Send
from replayfloor.client.events import Ending, WaitReason, WaitStarted
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profile_answers import AnswerRules
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReleaseLease,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_world import START_NS, ClientWorld, SimulatedJournal


def _state(world: ClientWorld) -> OperationState:
    return world.journal.versions[-1].state


# -- a key that will never tell -------------------------------------------------------------------


class _Burnt(ClientWorld):
    """The provider stored that the first execution failed, and repeats it."""

    def depart(self, send: Send) -> tuple[Attempted, float]:
        super().depart(send)
        return Reply(Response(500, ((b"idempotent-replayed", b"true"),), b"")), 0.1


def test_a_burnt_key_makes_the_outcome_unknown_at_once_and_for_good() -> None:
    profile = replace(PROFILE, answers=AnswerRules(burnt=frozenset({500})))
    world = _Burnt(profile, POLICY, [Attempt(Fate.BROKEN_GATEWAY)])

    verdicts = [world.call(), world.call()]

    assert [each.ending for each in verdicts] == [Ending.UNKNOWN] * 2
    assert [each.burnt for each in verdicts] == [True, True]
    assert "whether it was executed is not known" in verdicts[1].detail
    assert (len(world.departures), _state(world)) == (1, OperationState.UNKNOWN_FINAL)


# -- what other calls have left behind ------------------------------------------------------------


def test_an_operation_that_somebody_settled_is_not_sent() -> None:
    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3)
    entry = world.call().entry
    place = (entry.namespace, entry.operation_id)
    world.journal.settle(SettleOperation(*place, world.now_ns, Settlement.EXECUTED, "in the books"))

    verdict = world.call()

    assert (verdict.ending, verdict.entry.note) == (Ending.CLOSED, "in the books")
    assert len(world.departures) == 3


def test_a_call_whose_time_is_over_before_the_other_is_done_is_pending() -> None:
    policy = RetryPolicy(attempts_max=3, wait_base_s=1, wait_cap_s=4, budget_s=5, lease_s=30)
    world = world_of(Attempt(Fate.REPLY_LOST), policy=policy)
    with pytest.raises(Crash):
        world.call(CrashPoint(SEND, after=True))

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert "another call" in verdict.detail
    waits = [event for event in world.events if isinstance(event, WaitStarted)]
    assert [event.reason for event in waits] == [WaitReason.ANOTHER_CALL]


def test_a_lease_that_has_ended_is_taken_over() -> None:
    world = world_of(Attempt(Fate.REPLY_LOST))
    with pytest.raises(Crash):
        world.call(CrashPoint(SEND, after=True))
    world.pass_time(POLICY.lease_s)

    verdict = world.call()

    assert (verdict.ending, world.waits_s) == (Ending.RETURNED, [])


# -- while another call is sending ----------------------------------------------------------------

OTHER = b"another call's."


class _Meanwhile(ClientWorld):
    """Another call has the lease; something happens while this one waits for it."""

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        entry = self.entry()
        if entry is not None and entry.lease_owner not in (b"", self.drawn):
            self.happen(entry)

    def happen(self, entry: JournalEntry) -> None:
        """What the other call does, or somebody to the clock."""


def _crashed(kind: type[ClientWorld]) -> ClientWorld:
    world = world_of(Attempt(Fate.REPLY_LOST), kind=kind)
    with pytest.raises(Crash):
        world.call(CrashPoint(SEND, after=True))
    return world


def test_a_clock_that_is_set_back_in_that_wait_lets_nothing_leave() -> None:
    class SetBack(_Meanwhile):
        def happen(self, entry: JournalEntry) -> None:
            place = (entry.namespace, entry.operation_id)
            self.journal.release_lease(ReleaseLease(*place, entry.lease_owner))
            self.now_ns -= 60 * 10**9

    world = _crashed(SetBack)

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.PENDING, 1)
    assert "went back" in verdict.detail


def test_an_answer_that_the_other_call_got_and_kept_is_read() -> None:
    class Answered(_Meanwhile):
        def happen(self, entry: JournalEntry) -> None:
            end = EndAttempt(
                entry.namespace,
                entry.operation_id,
                self.now_ns,
                Outcome.DEFINITIVE,
                "status 201",
                done=True,
                final_status=201,
                lease_owner=entry.lease_owner,
                response=self._kept(Response(201, (), b"paid")),
            )
            self.journal.end_attempt(end)

    world = _crashed(Answered)

    verdict = world.call()

    assert (verdict.ending, verdict.entry.attempts) == (Ending.KEPT, 1)
    assert len(world.departures) == 1


def test_a_call_that_lost_its_lease_does_not_say_that_nothing_was_executed() -> None:
    """Its own attempt was refused, another call is sending now, and there is no time to wait."""

    class Taken(SimulatedJournal):
        def end_attempt(self, effect: EndAttempt) -> JournalEntry:
            ended = super().end_attempt(effect)
            place = (effect.namespace, effect.operation_id)
            self.release_lease(ReleaseLease(*place, effect.lease_owner))
            self.start_attempt(StartAttempt(*place, effect.at_ns, 0, OTHER, 1000.0))
            return ended

    world = world_of(Attempt(Fate.REFUSED), policy=replace(POLICY, budget_s=0.55))
    world.journal = Taken()

    verdict = world.call()

    assert (verdict.ending, verdict.outcome) == (Ending.PENDING, Outcome.UNKNOWN)
    assert world.departures == []


def test_an_attempt_that_is_held_back_leaves_it_certain_that_nothing_was_sent() -> None:
    """The clock is set back between the entry and the first attempt, which it counts already."""

    class SetBack(SimulatedJournal):
        def begin(self, effect: BeginOperation) -> Begun:
            world.now_ns -= 60 * 10**9
            return super().begin(effect)

    world = world_of()
    world.journal = SetBack()

    verdict = world.call()

    assert (verdict.ending, verdict.outcome, world.departures) == (
        Ending.PENDING,
        Outcome.NOT_SENT,
        [],
    )
    assert world.journal.versions[-1].known is Outcome.NOT_SENT


def test_what_the_fence_has_seen_is_kept_even_if_the_clock_is_set_back_at_once() -> None:
    class Fenced(ClientWorld):
        def depart(self, send: Send) -> tuple[Attempted, float]:
            return Failure("the send deadline passed", maybe_sent=False, fenced=True), 0.0

    world = world_of(kind=Fenced)

    verdict = world.call()

    window_ns = verdict.entry.send_deadline_ns - verdict.entry.first_attempt_at_ns
    assert (verdict.ending, verdict.entry.elapsed_ns) == (Ending.UNKNOWN, window_ns)


def test_a_lease_is_kept_over_a_wait_that_is_longer_than_it() -> None:
    policy = RetryPolicy(attempts_max=3, wait_base_s=4, wait_cap_s=4, budget_s=40, lease_s=1)
    world = world_of(Attempt(Fate.TURNED_AWAY), policy=policy)

    world.call()

    waiting = [entry for entry in world.journal.versions if entry.attempts == 1]
    assert max(entry.lease_until_ns for entry in waiting) > START_NS + 2 * 10**9


def test_a_kept_answer_is_read_also_after_the_deadline() -> None:
    world = world_of()
    world.keeps_responses = True
    world.call()
    world.pass_time(WINDOW_S)

    verdict = world.call()

    assert (verdict.ending, len(world.departures)) == (Ending.KEPT, 1)


def test_a_kept_answer_that_cannot_be_read_is_asked_for_again() -> None:
    world = world_of()
    world.keeps_responses = True
    entry = world.call().entry
    place = (entry.namespace, entry.operation_id)
    end = EndAttempt(*place, 0, Outcome.DEFINITIVE, "", done=True, final_status=201, response=b"?")
    world.journal.end_attempt(end)

    assert world.call().ending is Ending.RETURNED
    assert len(world.departures) == 2


def test_the_first_attempts_moment_is_told_with_every_attempt() -> None:
    told: list[int] = []

    class Noting(ClientWorld):
        def depart(self, send: Send) -> tuple[Attempted, float]:
            told.append(send.first_attempt_at_ns)
            return super().depart(send)

    world = world_of(*[Attempt(Fate.REPLY_LOST)] * 3, kind=Noting)
    world.call()
    world.call()

    assert told == [START_NS] * 4
