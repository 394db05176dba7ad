"""The client's flow: one logical request, sent with one key until its outcome is known. Pure.

Every decision about sending is taken here, and nothing is done: clocks, chance, journal, network,
waits and events are effects. Exceptions of an HTTP library do not occur; how a call ends is a
Verdict, and a shell turns it into an answer or an exception.

The order is the promise. The entry is durable before the first byte leaves; every attempt is
counted, durably, before it is sent, so that a crash can be told from a refusal; of several calls
of one operation, the one that has the lease sends; and no attempt starts at or past the send
deadline, because past it the provider would take it for a new request.

How an operation is begun and its lease taken is in `flow_begin`, what is recorded in `flow_end`.
The effects of every call are yielded as they are, because `yield from` makes a generator for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from tenacity import DoAttempt, DoSleep

from replayfloor.client.budget_rules import COST, COST_THROTTLED, Spend
from replayfloor.client.classify import Action, Finding, classify
from replayfloor.client.effects import (
    NOW,
    Draw,
    Emit,
    Failure,
    Moment,
    Operation,
    Reply,
    Sleep,
    new_send,
)
from replayfloor.client.events import (
    AttemptStarted,
    BudgetExhausted,
    ClockWentBack,
    OperationEnded,
    WaitReason,
    WaitStarted,
)
from replayfloor.client.flow_begin import begin, keep_lease, propose, take_lease
from replayfloor.client.flow_end import close, give_up, hold_back, record, release
from replayfloor.client.progress import UNPROVEN, Progress, Terms, Verdict
from replayfloor.client.schedule import DO_ATTEMPT, Schedule, Stop
from replayfloor.core.drivers import ensure
from replayfloor.core.effects import Flow
from replayfloor.core.outcome import Outcome

_RETRY: Final = Action.RETRY
_HAND_OVER: Final = Action.HAND_OVER
"""Looked up once: before Python 3.12 to look up a member takes as long as to call a function."""


def operate(operation: Operation, terms: Terms) -> Flow[Verdict]:
    """Send one logical request until its outcome is known, or may not be pursued further."""
    progress = yield from propose(operation, terms)
    # The lease is given back however the call ends, so that the next one need not wait for it.
    verdict = yield from ensure(_pursue(progress, operation), lambda: release(progress))
    if terms.listens:
        finding = progress.finding
        ended = OperationEnded(
            **progress.facts(),
            status=finding.status if finding else None,
            ending=verdict.ending,
        )
        yield from Emit(ended)
    return verdict


def _pursue(progress: Progress, operation: Operation) -> Flow[Verdict]:
    """Attempt and wait until an answer is final, a limit is reached or the deadline has passed."""
    verdict = yield from begin(progress, operation)
    if verdict is not None:
        return verdict
    schedule = None
    while True:
        step = DO_ATTEMPT if schedule is None else schedule.next()
        match step:
            case DoAttempt():
                verdict = yield from _attempt(progress)
                if verdict is not None:
                    return verdict
                finding = progress.finding
                assert finding is not None  # an attempt has ended
                if schedule is None:
                    if finding.action is _HAND_OVER:
                        return progress.stopped(handed_over=True)
                    schedule = Schedule(progress)
                schedule.record(finding)
            case DoSleep():
                verdict = yield from _wait(progress, float(step))
                if verdict is not None:
                    return verdict
            case Finding():
                return progress.stopped(handed_over=True)
            case Stop():
                return progress.stopped()
            case _:
                assert_never(step)


def _wait(progress: Progress, wait_s: float) -> Flow[Verdict | None]:
    """Wait for the next attempt, if one may follow; return a verdict if none may."""
    finding = progress.finding
    assert finding is not None  # an attempt has ended
    if progress.unproven:
        return progress.stopped(f"{finding.evidence}; {UNPROVEN}", handed_over=True)
    throttled = finding.in_flight or finding.retry_after is not None or finding.status == 429
    cost = COST_THROTTLED if throttled else COST
    if not (yield from Spend(progress.entry.origin, cost)):
        yield from Emit(BudgetExhausted(**progress.facts(), status=finding.status))
        return progress.stopped(f"{finding.evidence}; too many retries at this origin have failed")
    progress.paid = cost
    yield from keep_lease(progress, wait_s)
    reason = WaitReason.IN_FLIGHT if finding.in_flight else WaitReason.RETRY
    yield from Emit(WaitStarted(**progress.facts(), wait_s=wait_s, reason=reason))
    yield from Sleep(wait_s)
    progress.slept(wait_s)
    return None


def _attempt(progress: Progress) -> Flow[Verdict | None]:
    """Make one attempt; return a verdict if none may be made, now or after it."""
    moment = yield NOW
    assert isinstance(moment, Moment)
    progress.see(moment)
    if (obstacle := _obstacle(progress)) is not None:
        return (yield from obstacle(progress))
    if not progress.counted:
        verdict = yield from take_lease(progress)
        if verdict is not None:
            return verdict
        # Taking it may have taken its time.
        progress.see((yield from NOW))
        if (obstacle := _obstacle(progress)) is not None:
            return (yield from obstacle(progress))
    progress.counted = False
    progress.attempt_began_ns = progress.elapsed_ns
    if progress.terms.listens:
        yield from Emit(AttemptStarted(**progress.facts()))
    attempted = yield new_send(
        key=progress.entry.key,
        now_ns=progress.now_ns,
        seen=progress.seen,
        send_deadline_ns=progress.entry.send_deadline_ns,
        timeout_s=progress.budget_left_s,
        first_attempt_at_ns=progress.entry.first_attempt_at_ns,
    )
    assert isinstance(attempted, (Reply, Failure))
    moment = yield NOW
    assert isinstance(moment, Moment)
    progress.see(moment)
    # An answer that comes after the deadline may be to a late copy of the request: what an earlier
    # copy did, the server may have forgotten by now.
    known = max(progress.known, Outcome.UNKNOWN) if progress.deadline_passed else progress.known
    finding = classify(attempted, known, progress.terms.profile.answers)
    yield from record(progress, finding, attempted)
    if isinstance(attempted, Failure) and attempted.fenced:
        return (yield from close(progress, begun=True))
    if finding.burnt:
        return (yield from give_up(progress))
    if finding.action is _RETRY:
        progress.draw = yield from Draw()
    return None


def _obstacle(progress: Progress) -> Callable[[Progress], Flow[Verdict]] | None:
    """Return how the call ends if no attempt may be made at this moment; None if one may."""
    if progress.deadline_passed:
        return _too_late
    if progress.behind_s is not None:
        return _clock_behind
    if progress.unproven and not progress.counted:
        return _unproven
    if progress.finding is not None and progress.budget_left_s <= 0:
        return _over_budget
    return None


def _too_late(progress: Progress) -> Flow[Verdict]:
    yield from hold_back(progress, "the send deadline had passed")
    return (yield from close(progress, begun=False))


def _clock_behind(progress: Progress) -> Flow[Verdict]:
    """How much time passed is not known, and the provider may have forgotten the key."""
    behind_s = progress.behind_s or 0.0
    yield from Emit(ClockWentBack(**progress.facts(), behind_s=behind_s))
    detail = f"the wall clock went back by {behind_s:.1f} s: nothing is sent until it is right"
    yield from hold_back(progress, detail)
    return progress.stopped(detail)


def _unproven(progress: Progress) -> Flow[Verdict]:
    yield from hold_back(progress, UNPROVEN)
    return progress.stopped(UNPROVEN)


def _over_budget(progress: Progress) -> Flow[Verdict]:
    yield from hold_back(progress, "the wait took longer than it should have")
    return progress.stopped()
