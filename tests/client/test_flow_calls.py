"""What a call finds that others have left behind: a lease, an answer, a settlement, a burnt key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.worlds import POLICY, PROFILE, SEND, WINDOW_S, world_of
from replayfloor.client.effects import Attempted, Reply, Send
from replayfloor.client.events import Ending, WaitReason, WaitStarted
from replayfloor.client.policy import RetryPolicy, http_date
from replayfloor.client.profile_answers import AnswerRules
from replayfloor.core.journal import EndAttempt, OperationState, Settlement, SettleOperation
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_world import START_NS, ClientWorld


def _state(world: ClientWorld) -> OperationState:
    return world.journal.history[-1].state


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


def test_a_lease_is_kept_over_a_wait_that_is_longer_than_it() -> None:
    policy = RetryPolicy(attempts_max=3, wait_base_s=4, wait_cap_s=4, budget_s=40, lease_s=1)
    world = world_of(Attempt(Fate.TURNED_AWAY), policy=policy)

    world.call()

    renewed = [e for e in world.journal.history if e.lease_until_ns > START_NS + 2 * 10**9]
    assert renewed


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
    end = EndAttempt(entry.namespace, entry.operation_id, 0, Outcome.UNKNOWN, "", response=b"?")
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
    assert http_date(START_NS + 999_999_999) == "Fri, 15 Jan 2027 08:00:00 GMT"
