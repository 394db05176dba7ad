"""The client's flow: one logical request, sent with one key until its outcome is known. Pure.

Every decision about sending is taken here, and nothing is done: clock, chance, journal, network,
waits and events are effects. Exceptions of an HTTP library do not occur; how a call ends is a
Verdict, and a shell turns it into an answer or an exception.

The order is the promise. The entry is durable before the first byte leaves; every attempt is
counted, durably, before it is sent, so that a crash can be told from a refusal; and no attempt
starts at or past the send deadline, because past it the provider would take it for a new request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tenacity import DoAttempt, DoSleep

from replayfloor.client.classify import Action, Finding, classify
from replayfloor.client.effects import Draw, Emit, Entropy, Failure, Now, Operation, Send, Sleep
from replayfloor.client.events import (
    AttemptEnded,
    AttemptStarted,
    Ending,
    JournalFailed,
    OperationEnded,
    WaitStarted,
)
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Progress, Verdict
from replayfloor.client.schedule import Schedule, Stop
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    StartAttempt,
    with_attempt_ended,
)
from replayfloor.core.outcome import join
from replayfloor.core.uuid7 import RANDOM_BYTES, uuid7

_NS_PER_MS = 1_000_000


def operate(operation: Operation, profile: Profile, policy: RetryPolicy) -> Flow[Verdict]:
    """Send one logical request until its outcome is known, or may not be pursued further."""
    now_ns = yield from Now()
    key = operation.key
    if key is None:
        # Made once, before everything else: whatever is repeated below is repeated under it.
        key = str(uuid7(now_ns // _NS_PER_MS, (yield from Entropy(RANDOM_BYTES))))
    progress = Progress(profile, policy, _proposed(operation, profile, key, now_ns), now_ns)
    verdict = yield from _begin(progress, operation)
    if verdict is None:
        verdict = yield from _pursue(progress)
    finding = progress.finding
    ended = OperationEnded(
        **progress.facts(),
        status=finding.status if finding else None,
        ending=verdict.ending,
        resumed=verdict.resumed,
    )
    yield from Emit(ended)
    return verdict


def _proposed(operation: Operation, profile: Profile, key: str, now_ns: int) -> JournalEntry:
    return JournalEntry(
        namespace=profile.namespace,
        operation_id=operation.operation_id or key,
        key=key,
        method=operation.method,
        origin=operation.origin,
        path=operation.path,
        fingerprint=operation.fingerprint,
        # Taken before the journal's commit, so earlier than the provider's own count begins.
        first_attempt_at_ns=now_ns,
        retention_s=profile.retention_s,
        send_deadline_ns=profile.send_deadline_ns(now_ns),
        last_attempt_at_ns=now_ns,
        last_seen_at_ns=now_ns,
    )


def _begin(progress: Progress, operation: Operation) -> Flow[Verdict | None]:
    """Write ahead, or take up the operation that stands; return a verdict if it may not go on."""
    try:
        begun = yield from BeginOperation(progress.entry)
    except StoreUnavailable as error:
        progress.entry = replace(progress.entry, attempts=0)
        return progress.verdict(Ending.JOURNAL_UNAVAILABLE, str(error), error)
    if not begun.resumed:
        return None
    progress.adopt(begun.entry)
    if difference := _difference(begun.entry, operation):
        return progress.verdict(Ending.MISMATCH, difference)
    if begun.entry.state is OperationState.UNKNOWN_FINAL:
        return progress.verdict(Ending.UNKNOWN)
    return None


def _difference(standing: JournalEntry, operation: Operation) -> str | None:
    """Return how the request differs from the one that stands under its operation id or key."""
    if operation.operation_id not in (None, standing.operation_id):
        return f"the key belongs to the operation {standing.operation_id!r}"
    if operation.key not in (None, standing.key):
        return f"the operation was begun with another key, {standing.key!r}"
    now = (operation.method, operation.origin, operation.path)
    before = (standing.method, standing.origin, standing.path)
    if now != before:
        return "it was begun as {} {}{}, and is now {} {}{}".format(*before, *now)
    if operation.fingerprint != standing.fingerprint:
        return (
            "the request differs from the first one in its query, media type or body "
            "(a multipart body needs the same boundary every time)"
        )
    return None


def _pursue(progress: Progress) -> Flow[Verdict]:
    """Attempt and wait until an answer is final, a limit is reached or the deadline has passed."""
    schedule = Schedule(progress)
    while True:
        step = schedule.next()
        match step:
            case DoAttempt():
                verdict = yield from _attempt(progress)
                if verdict is not None:
                    return verdict
                if progress.finding is not None:
                    schedule.record(progress.finding)
            case DoSleep():
                yield from Emit(WaitStarted(**progress.facts(), wait_s=float(step)))
                yield from Sleep(float(step))
                progress.slept(float(step))
            case Finding():
                return progress.stopped(handed_over=True)
            case Stop():
                return progress.stopped()
            case _:
                assert_never(step)


def _attempt(progress: Progress) -> Flow[Verdict | None]:
    """Make one attempt; return a verdict if none may be made, now or after it."""
    progress.see((yield from Now()))
    if progress.deadline_passed:
        return (yield from _close(progress))
    if progress.finding is not None and progress.budget_left_s <= 0:
        return progress.stopped()  # the wait took longer than it should have
    if not progress.counted:
        verdict = yield from _start(progress)
        if verdict is not None:
            return verdict
    progress.counted = False
    yield from Emit(AttemptStarted(**progress.facts(), resumed=progress.resumed))
    attempted = yield from Send(
        key=progress.entry.key,
        now_ns=progress.now_ns,
        send_deadline_ns=progress.entry.send_deadline_ns,
        timeout_s=progress.budget_left_s,
    )
    progress.see((yield from Now()))
    finding = classify(attempted, progress.known)
    yield from _record(progress, finding)
    if isinstance(attempted, Failure) and attempted.fenced:
        return (yield from _close(progress))
    if finding.action is Action.RETRY:
        progress.draw = yield from Draw()
    return None


def _start(progress: Progress) -> Flow[Verdict | None]:
    """Count an attempt that the journal does not know of yet."""
    place = (progress.entry.namespace, progress.entry.operation_id)
    try:
        progress.entry = yield from StartAttempt(*place, progress.now_ns)
    except StoreUnavailable as error:
        if progress.finding is None:
            return progress.verdict(Ending.JOURNAL_UNAVAILABLE, str(error), error)
        return progress.stopped(cause=error)
    if progress.entry.state is OperationState.UNKNOWN_FINAL:
        return progress.verdict(Ending.UNKNOWN)  # another process closed it meanwhile
    return None


def _record(progress: Progress, finding: Finding) -> Flow[None]:
    """Record what the attempt has taught. The answer counts, also if the journal is down now."""
    done = progress.learn(finding)
    effect = EndAttempt(
        progress.entry.namespace,
        progress.entry.operation_id,
        progress.now_ns,
        progress.known,
        finding.evidence,
        done=done,
        final_status=finding.status if done else None,
    )
    try:
        progress.entry = yield from effect
    except StoreUnavailable as error:
        progress.entry = with_attempt_ended(progress.entry, effect)
        yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))
    # Another process may have learned more, or may be sending at this moment.
    progress.known = join(progress.known, progress.entry.known)
    ended = AttemptEnded(
        **progress.facts(),
        status=finding.status,
        evidence=finding.evidence,
        replayed=finding.replayed,
    )
    yield from Emit(ended)


def _close(progress: Progress) -> Flow[Verdict]:
    """Latch that the send deadline has passed: nothing is sent under this key again."""
    # At least the deadline, so that a clock that is set back later cannot undo it.
    at_ns = max(progress.now_ns, progress.entry.send_deadline_ns)
    place = (progress.entry.namespace, progress.entry.operation_id)
    try:
        progress.entry = yield from CloseOperation(*place, at_ns)
    except StoreUnavailable as error:
        yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))
    done = progress.entry.state is OperationState.DONE
    return progress.verdict(Ending.CLOSED if done else Ending.UNKNOWN)
