"""What the flow records: how an attempt ended, that the deadline has passed, the lease. Pure.

After an answer the journal may fail: the answer counts, and what was not recorded is presumed to
have been executed by whoever reads the entry next.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from replayfloor.client.budget_rules import REFUND, Refund
from replayfloor.client.classify import Finding
from replayfloor.client.effects import Attempted, Emit, Failure, Reply
from replayfloor.client.events import AttemptEnded, DeadlineFence, Ending, JournalFailed
from replayfloor.client.progress import Progress, Verdict
from replayfloor.client.support import NoteSupport, place_of, read_support
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReleaseLease,
)
from replayfloor.core.journal_rules import NS_PER_S, with_attempt_ended
from replayfloor.core.making import maker
from replayfloor.core.outcome import Outcome

_DEFINITIVE: Final = Outcome.DEFINITIVE
_end: Final = maker(EndAttempt)


def record(progress: Progress, finding: Finding, attempted: Attempted) -> Flow[None]:
    """Record what the attempt has taught. The answer counts, also if the journal is down now."""
    kept = None
    if isinstance(attempted, Reply):
        kept = attempted.kept
        if not finding.silent:
            yield from _hear_of_support(progress, attempted)
    done = progress.learn(finding)
    if finding.outcome is _DEFINITIVE:
        yield Refund(progress.entry.origin, progress.paid or REFUND)
        progress.paid = 0
    kept = kept if done else None
    yield from _end_attempt(progress, finding.evidence, finding.status, done=done, kept=kept)
    if not progress.terms.listens:
        return
    ended = AttemptEnded(
        **progress.facts(),
        status=finding.status,
        evidence=finding.evidence,
        took_s=(progress.elapsed_ns - progress.attempt_began_ns) / NS_PER_S,
        maybe_sent=not isinstance(attempted, Failure) or attempted.maybe_sent,
        in_flight=finding.in_flight,
        replayed=finding.replayed,
    )
    yield from Emit(ended)


def _hear_of_support(progress: Progress, reply: Reply) -> Flow[None]:
    support = read_support(reply.response)
    if support is not None:
        entry = progress.entry
        place = place_of(progress.terms.learning, entry.origin, entry.path)
        yield from NoteSupport(place, support)
        progress.expect(support)


def hold_back(progress: Progress, evidence: str) -> Flow[None]:
    """Record that the attempt which the journal counts already was not made."""
    if progress.counted:
        progress.counted = False
        yield from _end_attempt(progress, evidence, None, done=False, kept=None)


def _end_attempt(
    progress: Progress, evidence: str, status: int | None, *, done: bool, kept: bytes | None
) -> Flow[None]:
    entry = progress.entry
    # What the journal knows already is not told it again: a deadline that changes is waited for.
    learned = entry.retention_s > 0 and entry.retention_s != progress.stored_retention_s
    effect = _end(
        entry.namespace,
        entry.operation_id,
        progress.seen.wall_ns,
        progress.known,
        evidence,
        done=done,
        final_status=status if done else None,
        elapsed_ns=progress.elapsed_ns,
        lease_owner=progress.owner,
        response=kept,
        retention_s=entry.retention_s if learned else None,
        send_deadline_ns=entry.send_deadline_ns if learned else 0,
    )
    try:
        written = yield effect
        progress.leased = progress.leased and not done
    except StoreUnavailable as error:
        written = with_attempt_ended(entry, effect)
        yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))
    assert isinstance(written, JournalEntry)
    progress.take(written)
    # Another process may have learned more, or may be sending at this moment.
    if (known := written.known) > progress.known:
        progress.known = known


def close(progress: Progress, *, begun: bool) -> Flow[Verdict]:
    """Latch that the send deadline has passed: nothing is sent under this key again."""
    yield from Emit(DeadlineFence(**progress.facts(), begun=begun))
    entry = progress.entry
    # At least the deadline, so that a clock that is set back later cannot undo it.
    window_ns = entry.send_deadline_ns - entry.first_attempt_at_ns
    yield from _latch(progress, max(progress.elapsed_ns, window_ns))
    if progress.entry.state is OperationState.DONE:
        return progress.verdict(Ending.CLOSED)
    return progress.latched()


def give_up(progress: Progress) -> Flow[Verdict]:
    """Latch that the key is burnt: whoever sends it again will not learn more than is known."""
    yield from _latch(progress, progress.elapsed_ns)
    return progress.latched()


def _latch(progress: Progress, elapsed_ns: int) -> Flow[None]:
    place = (progress.entry.namespace, progress.entry.operation_id, progress.seen.wall_ns)
    try:
        progress.take((yield from CloseOperation(*place, elapsed_ns)))
        progress.leased = False
    except StoreUnavailable as error:
        yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))


def release(progress: Progress) -> Flow[None]:
    """Give the lease back. One that stays ends by itself."""
    if progress.leased:
        progress.leased = False
        entry = progress.entry
        with suppress(StoreUnavailable):
            yield from ReleaseLease(entry.namespace, entry.operation_id, progress.owner)
