"""What the journal's effects do to an entry: the reference that every journal has to match.

Pure functions on entries. `now_ns` is what the journal's clock shows, by which leases begin and
end: the effect's own moment where the journal has no clock (None).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Final, Protocol

from replayfloor.core.errors import UsageError
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
    PendingCount,
    PruneOperations,
    ReadHistory,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.making import changer
from replayfloor.core.outcome import Outcome, executed_nothing, join

NS_PER_S = 1_000_000_000

_NAMES: Final = (
    "namespace", "operation_id", "key", "provider", "method", "origin", "path", "boot_id",
)  # fmt: skip
"""The texts of an entry that say what it is: they are stored as they are, or not at all."""

_names_of: Final = attrgetter(*_NAMES)

_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
"""Postgres keeps no NUL in a text, and UTF-8 has no form for half of a surrogate pair."""

_REPLACEMENT: Final = "\ufffd"


def is_storable(*names: str | None) -> bool:
    """Return whether every journal could keep each of the names exactly; None is no name."""
    return not any(name is not None and _is_unstorable(name) for name in names)


def as_kept(text: str, length_max: int) -> str:
    """Return a text that says something to a person, as every journal keeps it."""
    kept = text[:length_max]
    return _UNSTORABLE.sub(_REPLACEMENT, kept) if _is_unstorable(kept) else kept


def _is_unstorable(text: str) -> bool:
    # ASCII, which nearly all is, has no surrogates, and is looked through thirty times as fast.
    return "\x00" in text if text.isascii() else _UNSTORABLE.search(text) is not None


def place_after(effect: ReadHistory) -> tuple[str, str] | None:
    """Return behind which place ReadHistory begins; raises UsageError if it is none."""
    if effect.after is not None and not is_storable(*effect.after):
        raise UsageError(f"no operation of the journal can be at {effect.after!r}")
    return effect.after


def leased_to_another(entry: JournalEntry, owner: bytes, now_ns: int) -> bool:
    """Return whether a call other than `owner` may send at this moment."""
    return entry.lease_owner not in (b"", owner) and entry.lease_until_ns > now_ns


def with_lease(entry: JournalEntry, owner: bytes, lease_s: float, now_ns: int) -> JournalEntry:
    """Return the entry with a lease that begins now."""
    return replace(entry, lease_owner=owner, lease_until_ns=now_ns + int(lease_s * NS_PER_S))


def without_lease(entry: JournalEntry) -> JournalEntry:
    """Return the entry with nobody's lease."""
    return replace(entry, lease_owner=b"", lease_until_ns=0)


def as_inserted(effect: BeginOperation, now_ns: int | None = None) -> JournalEntry:
    """Return the entry that BeginOperation inserts; raises UsageError if no journal keeps it."""
    entry = effect.entry
    # All at once, because one that cannot be kept is rare.
    if _is_unstorable("".join(_names_of(entry))):
        name = next(each for each in _NAMES if not is_storable(getattr(entry, each)))
        raise UsageError(
            f"no journal can keep the {name} {getattr(entry, name)!r}: it holds NUL or half of a "
            "surrogate pair"
        )
    if entry.last_evidence is not None:
        evidence = as_kept(entry.last_evidence, EVIDENCE_LENGTH_MAX)
        entry = replace(entry, last_evidence=evidence)
    if entry.note is not None:
        entry = replace(entry, note=as_kept(entry.note, NOTE_LENGTH_MAX))
    if effect.lease_s <= 0:
        return entry
    began_ns = entry.last_seen_at_ns if now_ns is None else now_ns
    if entry.lease_until_ns == began_ns + int(effect.lease_s * NS_PER_S):
        return entry
    return with_lease(entry, entry.lease_owner, effect.lease_s, began_ns)


def with_attempt_started(
    entry: JournalEntry, effect: StartAttempt, now_ns: int | None = None
) -> JournalEntry:
    """Return the entry after StartAttempt."""
    now_ns = effect.at_ns if now_ns is None else now_ns
    if entry.state in LATCHED or leased_to_another(entry, effect.lease_owner, now_ns):
        return entry
    counted = replace(
        entry,
        attempts=entry.attempts + 1,
        last_attempt_at_ns=max(entry.last_attempt_at_ns, effect.at_ns),
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        elapsed_ns=max(entry.elapsed_ns, effect.elapsed_ns),
    )
    if entry.state is OperationState.DONE and executed_nothing(entry.worst):
        counted = replace(counted, state=OperationState.OPEN, final_status=None, response=None)
    if not effect.lease_owner:
        return without_lease(counted)
    return with_lease(counted, effect.lease_owner, effect.lease_s, now_ns)


class _Ended(Protocol):
    """The entry after an attempt, from the one before."""

    def __call__(
        self,
        value: JournalEntry,
        *,
        elapsed_ns: int,
        retention_s: float,
        send_deadline_ns: int,
        attempts_ended: int,
        last_seen_at_ns: int,
        worst: Outcome,
        state: OperationState,
        final_status: int | None,
        last_evidence: str,
        lease_owner: bytes,
        lease_until_ns: int,
        response: bytes | None,
    ) -> JournalEntry: ...


_ended: Final[_Ended] = changer(
    JournalEntry,
    "elapsed_ns", "retention_s", "send_deadline_ns", "attempts_ended", "last_seen_at_ns", "worst",
    "state", "final_status", "last_evidence", "lease_owner", "lease_until_ns", "response",
)  # fmt: skip


def with_attempt_ended(entry: JournalEntry, effect: EndAttempt) -> JournalEntry:
    """Return the entry after EndAttempt."""
    worst = join(entry.worst, effect.outcome)
    lost = entry.attempts > entry.attempts_ended + 1
    known = join(worst, Outcome.UNKNOWN) if lost else worst
    settles = effect.done and (known is Outcome.DEFINITIVE or executed_nothing(known))
    releases = effect.done and entry.lease_owner == effect.lease_owner
    learns = effect.retention_s is not None
    keeps = settles and effect.response is not None
    return _ended(
        entry,
        elapsed_ns=max(entry.elapsed_ns, effect.elapsed_ns),
        retention_s=entry.retention_s if effect.retention_s is None else effect.retention_s,
        send_deadline_ns=effect.send_deadline_ns if learns else entry.send_deadline_ns,
        attempts_ended=entry.attempts_ended + 1,
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        worst=worst,
        state=OperationState.DONE if settles else entry.state,
        final_status=effect.final_status if settles else entry.final_status,
        last_evidence=as_kept(effect.evidence, EVIDENCE_LENGTH_MAX),
        lease_owner=b"" if releases else entry.lease_owner,
        lease_until_ns=0 if releases else entry.lease_until_ns,
        response=effect.response if keeps else entry.response,
    )


def with_lease_renewed(
    entry: JournalEntry, effect: RenewLease, now_ns: int | None = None
) -> JournalEntry:
    """Return the entry after RenewLease."""
    if not effect.lease_owner or entry.lease_owner != effect.lease_owner:
        return entry
    began_ns = effect.at_ns if now_ns is None else now_ns
    return with_lease(entry, effect.lease_owner, effect.lease_s, began_ns)


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
        note=as_kept(effect.note, NOTE_LENGTH_MAX),
    )
    return without_lease(settled)


def may_be_pruned(entry: JournalEntry, effect: PruneOperations) -> bool:
    """Return whether PruneOperations removes the entry (its limit aside)."""
    return (
        entry.state in FINISHED
        and max(entry.last_seen_at_ns, entry.send_deadline_ns) < effect.finished_before_ns
        and effect.namespace in (None, entry.namespace)
    )


def is_in_history(entry: JournalEntry, effect: ReadHistory) -> bool:
    """Return whether ReadHistory returns the entry (its limit aside)."""
    after = place_after(effect)
    behind = after is None or (entry.namespace, entry.operation_id) > after
    return behind and effect.namespace in (None, entry.namespace)


def pending_counts(entries: Iterable[JournalEntry]) -> tuple[PendingCount, ...]:
    """Return what CountPending returns if these entries are all."""
    oldest_ns: dict[tuple[str, str, OperationState], list[int]] = {}
    for entry in entries:
        if entry.state not in FINISHED:
            group = (entry.namespace, entry.provider, entry.state)
            oldest_ns.setdefault(group, []).append(entry.first_attempt_at_ns)
    return tuple(
        PendingCount(
            provider=provider,
            namespace=namespace,
            state=state,
            count=len(moments),
            oldest_first_attempt_at_ns=min(moments),
        )
        for (namespace, provider, state), moments in sorted(oldest_ns.items())
    )
