"""What the journal's effects do to an entry: the reference that every journal has to match.

Pure functions on entries. `now_ns` is the journal's clock: the effect's own moment where the
journal has none.
"""

from __future__ import annotations

from dataclasses import replace

from replayfloor.core.journal import (
    EVIDENCE_LENGTH_MAX,
    FINISHED,
    LATCHED,
    NOTE_LENGTH_MAX,
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    PruneOperations,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import join

NS_PER_S = 1_000_000_000


def leased_to_another(entry: JournalEntry, owner: bytes, now_ns: int) -> bool:
    """Return whether a call other than `owner` may send at this moment."""
    return entry.lease_owner not in (b"", owner) and entry.lease_until_ns > now_ns


def with_lease(entry: JournalEntry, owner: bytes, lease_s: float, now_ns: int) -> JournalEntry:
    """Return the entry with a lease that begins now."""
    return replace(entry, lease_owner=owner, lease_until_ns=now_ns + int(lease_s * NS_PER_S))


def without_lease(entry: JournalEntry) -> JournalEntry:
    """Return the entry with nobody's lease."""
    return replace(entry, lease_owner=b"", lease_until_ns=0)


def as_inserted(effect: BeginOperation) -> JournalEntry:
    """Return the entry that BeginOperation inserts."""
    entry = effect.entry
    if effect.lease_s <= 0:
        return entry
    return with_lease(entry, entry.lease_owner, effect.lease_s, entry.last_seen_at_ns)


def with_attempt_started(entry: JournalEntry, effect: StartAttempt) -> JournalEntry:
    """Return the entry after StartAttempt."""
    if entry.state in LATCHED or leased_to_another(entry, effect.lease_owner, effect.at_ns):
        return entry
    counted = replace(
        entry,
        attempts=entry.attempts + 1,
        last_attempt_at_ns=max(entry.last_attempt_at_ns, effect.at_ns),
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        elapsed_ns=max(entry.elapsed_ns, effect.elapsed_ns),
    )
    if not effect.lease_owner:
        return without_lease(counted)
    return with_lease(counted, effect.lease_owner, effect.lease_s, effect.at_ns)


def with_attempt_ended(entry: JournalEntry, effect: EndAttempt) -> JournalEntry:
    """Return the entry after EndAttempt."""
    ended = replace(
        entry,
        attempts_ended=entry.attempts_ended + 1,
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        elapsed_ns=max(entry.elapsed_ns, effect.elapsed_ns),
        worst=join(entry.worst, effect.outcome),
        state=OperationState.DONE if effect.done else entry.state,
        final_status=effect.final_status if effect.done else entry.final_status,
        last_evidence=effect.evidence[:EVIDENCE_LENGTH_MAX],
        response=entry.response if effect.response is None else effect.response,
    )
    if effect.retention_s is not None:
        ended = replace(
            ended, retention_s=effect.retention_s, send_deadline_ns=effect.send_deadline_ns
        )
    releases = effect.done and entry.lease_owner == effect.lease_owner
    return without_lease(ended) if releases else ended


def with_lease_renewed(entry: JournalEntry, effect: RenewLease) -> JournalEntry:
    """Return the entry after RenewLease."""
    if not effect.lease_owner or entry.lease_owner != effect.lease_owner:
        return entry
    return with_lease(entry, effect.lease_owner, effect.lease_s, effect.at_ns)


def with_lease_released(entry: JournalEntry, effect: ReleaseLease) -> JournalEntry:
    """Return the entry after ReleaseLease."""
    return without_lease(entry) if entry.lease_owner == effect.lease_owner else entry


def with_operation_closed(entry: JournalEntry, effect: CloseOperation) -> JournalEntry:
    """Return the entry after CloseOperation."""
    open_ = entry.state is OperationState.OPEN
    closed = replace(
        entry,
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        elapsed_ns=max(entry.elapsed_ns, effect.elapsed_ns),
        state=OperationState.UNKNOWN_FINAL if open_ else entry.state,
    )
    return without_lease(closed)


def with_operation_settled(entry: JournalEntry, effect: SettleOperation) -> JournalEntry:
    """Return the entry after SettleOperation."""
    seen = replace(entry, last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns))
    if entry.state is OperationState.DONE:
        return seen
    settled = replace(
        seen,
        state=OperationState.SETTLED,
        settlement=effect.settlement,
        note=effect.note[:NOTE_LENGTH_MAX],
    )
    return without_lease(settled)


def may_be_pruned(entry: JournalEntry, effect: PruneOperations) -> bool:
    """Return whether PruneOperations removes the entry (its limit aside)."""
    return (
        entry.state in FINISHED
        and max(entry.last_seen_at_ns, entry.send_deadline_ns) < effect.finished_before_ns
        and effect.namespace in (None, entry.namespace)
    )
