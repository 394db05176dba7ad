"""What a refusal settles, and what it does not: it says nothing of any other attempt.

And the answer that is handed over when no further attempt can be made: the last one, whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx
import pytest

from client.clients import FakeTime, named
from client.loopback import DROP, Loopback, Reply
from client.stacks import HTTPX, Stack, StackSetup, on_each_stack
from client.worlds import PROFILE
from replayfloor.client import MemoryJournal, OutcomePending, OutcomeUnknown, RetryPolicy
from replayfloor.client.budget import RetryBudget
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import EndAttempt, JournalEntry, OperationState, StartAttempt
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Fate
from replayfloor.testing.client_schedules import Leap, Scenario, visit
from replayfloor.testing.client_world import ClientWorld, SimulatedJournal
from replayfloor.testing.explore import Chooser, Report, explore

DAY_S = 86_400.0
MIB = 1 << 20


@on_each_stack
def test_an_operation_that_was_refused_is_pending_again_once_an_answer_is_lost(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(400), DROP)
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        refused = client.post(loopback.url(), extensions=named("invoice-1"))
        listed = setup.journal.pending()
        with pytest.raises(OutcomePending, match="outcome is not known"):
            client.post(loopback.url(), extensions=named("invoice-1"))

    assert (refused.status_code, listed) == (400, ())
    (entry,) = setup.journal.pending()
    assert (entry.state, entry.known) == (OperationState.OPEN, Outcome.UNKNOWN)


@on_each_stack
def test_after_the_deadline_its_outcome_is_unknown_and_not_the_refusal(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(400), DROP)
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))
        with pytest.raises(OutcomePending):
            client.post(loopback.url(), extensions=named("invoice-1"))
        setup.time.pass_time(DAY_S)
        with pytest.raises(OutcomeUnknown, match="new one: find out"):
            client.post(loopback.url(), extensions=named("invoice-1"))


# -- every order of two calls ---------------------------------------------------------------------


class DoneStaysDone(SimulatedJournal):
    """An attempt of an operation that was refused changes nothing of its state."""

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        before = self._entries[effect.namespace, effect.operation_id]
        after = super().start_attempt(effect)
        if before.state is OperationState.DONE:
            after = self._put(replace(after, state=OperationState.DONE))
        return self._noted(after)


class BelievesDone(SimulatedJournal):
    """Done is done, whatever else is under way."""

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        after = super().end_attempt(effect)
        if effect.done:
            after = self._put(replace(after, state=OperationState.DONE))
        return self._noted(after)


TWO_CALLS = Scenario(calls=2, crashes=0)
A_CRASH = Scenario(calls=1, crashes=1)
A_LATE_ANSWER = Scenario(calls=2, crashes=0, leaps=(Leap("stands still", stands_still_s=1),))


def _explore(journal: type[SimulatedJournal], scenario: Scenario, *fates: Fate) -> Report:
    def run(chooser: Chooser) -> None:
        attempts = [Attempt(fate) for fate in fates]
        policy = RetryPolicy(attempts_max=2, wait_base_s=0.1, budget_s=40, lease_s=0.2)
        world = ClientWorld(PROFILE, policy, attempts, journal=journal())
        visit(world, scenario, chooser)

    return explore(run)


@pytest.mark.parametrize(
    "fates",
    [
        (Fate.INVALID, Fate.REPLY_LOST, Fate.REFUSED),
        (Fate.REPLY_LOST, Fate.INVALID),
        (Fate.INVALID, Fate.INVALID),
    ],
)
@pytest.mark.parametrize("scenario", [TWO_CALLS, A_CRASH, A_LATE_ANSWER])
def test_no_order_of_calls_hides_what_may_have_been_executed(
    scenario: Scenario, fates: tuple[Fate, ...]
) -> None:
    assert _explore(SimulatedJournal, scenario, *fates).shortest is None


@pytest.mark.parametrize(
    ("journal", "scenario"), [(DoneStaysDone, TWO_CALLS), (BelievesDone, A_LATE_ANSWER)]
)
def test_a_journal_that_hides_it_is_found(
    journal: type[SimulatedJournal], scenario: Scenario
) -> None:
    report = _explore(journal, scenario, Fate.INVALID, Fate.REPLY_LOST, Fate.REFUSED)

    assert report.shortest is not None
    assert "nobody knew whether it was executed" in report.shortest.promise


# -- the last answer, when no further attempt can be made -----------------------------------------


class GoesDown(MemoryJournal):
    """It counts no further attempt."""

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        raise StoreUnavailable("the journal is down")


@dataclass
class TurnsBack(FakeTime):
    """A clock that is set back by an hour while a call waits."""

    def sleep(self, wait_s: float) -> None:
        self.pass_time(-3600)


def _setups(stack: Stack) -> list[StackSetup]:
    return [
        StackSetup(stack=stack, journal=GoesDown()),
        StackSetup(stack=stack, time=TurnsBack()),
        StackSetup(stack=stack, budget=RetryBudget(0)),
    ]


@on_each_stack
@pytest.mark.parametrize("which", range(3), ids=["journal down", "clock back", "no budget"])
def test_the_answer_is_handed_over_whole_if_the_attempt_after_it_cannot_be_made(
    which: int, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(429, body=b'{"why": "busy"}'))
    with _setups(stack)[which].client() as client:
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert (response.status_code, response.json()) == (429, {"why": "busy"})
    assert len(loopback.received) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_same_with_await(loopback: Loopback) -> None:
    loopback.script(Reply(429, body=b'{"why": "busy"}'))
    async with _setups(HTTPX)[0].async_client() as client:
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (response.status_code, response.json()) == (429, {"why": "busy"})


def test_an_answer_that_was_too_large_to_be_read_is_told_and_not_handed_over_empty(
    loopback: Loopback,
) -> None:
    loopback.script(Reply(429, body=b"x" * 3 * MIB))
    setup = StackSetup(stack=HTTPX, journal=GoesDown())
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert "it was not executed after 1 attempt" in str(caught.value)
    assert caught.value.outcome is Outcome.REJECTED
    assert isinstance(caught.value.last_response, httpx.Response)
    assert caught.value.last_response.status_code == 429
