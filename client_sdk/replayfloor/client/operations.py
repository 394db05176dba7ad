"""What a crash left: pending operations as they stand at a moment, and settling one by hand.

For transports and for the command line. Only the journal's protocol is used, and no HTTP library;
nothing is sent from here. What grows old is in `upkeep`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from replayfloor.client.clock import look
from replayfloor.client.effects import Moment
from replayfloor.client.elapsed import elapsed_ns
from replayfloor.client.journal import Journal
from replayfloor.client.upkeep import Upkeep, prune
from replayfloor.core.errors import IdempotencyError, UsageError
from replayfloor.core.journal import (
    FINISHED,
    NOTE_LENGTH_MAX,
    PENDING_MAX,
    JournalEntry,
    OperationState,
    ReadOperation,
    ReadPending,
    Settlement,
    SettleOperation,
)
from replayfloor.core.journal_rules import NS_PER_S
from replayfloor.core.outcome import Outcome, executed_nothing

__all__ = [
    "OperationBusy",
    "PendingOperation",
    "Upkeep",
    "as_datetime",
    "described",
    "pending",
    "prune",
    "settle",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OperationBusy(IdempotencyError):
    """A call is sending the operation now, so that it cannot be settled yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOperation:
    """An operation without a known end, as it stood when it was looked at.

    Attributes:
        provider: the profile's name.
        namespace, operation_id: where the journal has it.
        key: the key that every attempt is sent with.
        method, url: of its request. The url has no query: the journal does not keep it.
        first_attempt_at: aware datetime in UTC.
        elapsed_s: seconds since then, over all restarts; never less than the journal knows.
        retry_until: the send deadline, aware datetime in UTC: the last moment (exclusive) at
            which an attempt may start. Without a known retention it is years away, and what holds
            the operation back is that it may have been executed.
        retention_s: the provider's key retention in seconds, None if it is not known.
        attempts: begun, over all restarts, the crashed ones included.
        outcome: what is known; an attempt whose end is not recorded counts as one that was sent.
        state: open, or unknown_final.
        leased: a call is sending it now, or died so lately that its lease has not ended.
        lease_until: when that lease ends unless it is renewed, by the journal's clock; None if
            nobody holds one.
        evidence: how the last attempt ended, or what refused to begin one; None if none ended.
        window_used: the elapsed share of the time in which attempts may start; 1 and more: over.
    """

    provider: str
    namespace: str
    operation_id: str
    key: str
    method: str
    url: str
    first_attempt_at: datetime
    elapsed_s: float
    retry_until: datetime
    retention_s: float | None
    attempts: int
    outcome: Outcome
    state: OperationState
    leased: bool
    lease_until: datetime | None
    evidence: str | None
    window_used: float

    @property
    def resumable(self) -> bool:
        """Whether it may still be sent, with its key and before its deadline.

        While it is leased, another call waits for the one that sends it.
        """
        proven = self.retention_s is not None or executed_nothing(self.outcome)
        return self.state is OperationState.OPEN and self.window_used < 1 and proven


def described(entry: JournalEntry, at: int | Moment) -> PendingOperation:
    """Return an entry as it is at a moment; `at` is the wall clock in ns since 1970, or both."""
    moment = look(lambda: at)
    passed_ns = elapsed_ns(entry, moment)
    window_ns = entry.send_deadline_ns - entry.first_attempt_at_ns
    leased = entry.lease_owner != b"" and entry.lease_until_ns > moment.wall_ns
    return PendingOperation(
        provider=entry.provider,
        namespace=entry.namespace,
        operation_id=entry.operation_id,
        key=entry.key,
        method=entry.method,
        url=f"{entry.origin}{entry.path}",
        first_attempt_at=as_datetime(entry.first_attempt_at_ns),
        elapsed_s=passed_ns / NS_PER_S,
        retry_until=as_datetime(entry.send_deadline_ns),
        retention_s=entry.retention_s if entry.retention_s > 0 else None,
        attempts=entry.attempts,
        outcome=entry.known,
        state=entry.state,
        leased=leased,
        lease_until=as_datetime(entry.lease_until_ns) if leased else None,
        evidence=entry.last_evidence,
        window_used=_share(passed_ns, window_ns),
    )


def _share(passed_ns: int, window_ns: int) -> float:
    """Return the share that has passed; no rounding moves it over the end of the window."""
    if passed_ns >= window_ns:
        return max(1.0, passed_ns / window_ns) if window_ns > 0 else 1.0
    return min(passed_ns / window_ns, 1 - 2**-53)


def pending(
    journal: Journal, at: int | Moment, namespace: str | None = None, limit: int = PENDING_MAX
) -> tuple[PendingOperation, ...]:
    """Return what is open or finally unknown at a moment, the oldest first attempt first.

    Args:
        journal: where to look.
        at: the wall clock in ns since 1970 (UTC), or both clocks.
        namespace: None means every namespace.
        limit: at most so many.

    Raises StoreUnavailable.
    """
    found = journal.pending(ReadPending(namespace, limit))
    return tuple(described(entry, at) for entry in found)


def settle(
    journal: Journal,
    namespace: str,
    operation_id: str,
    settlement: Settlement,
    note: str,
    at: int | Moment,
    *,
    force: bool = False,
) -> JournalEntry:
    """Record what somebody found out about an operation; nothing is sent for it ever again.

    Returns the entry as it stands afterwards. If it is done, it stays done: its answer is known.
    With `force`, also while a call is sending it; what that call still learns from an answer is
    recorded nevertheless.

    Args:
        journal, namespace, operation_id: which operation.
        settlement: what became of it.
        note: how that is known, for whoever looks later; at most NOTE_LENGTH_MAX characters.
        at: the wall clock in ns since 1970 (UTC), or both clocks.
        force: settle what is being sent, too.

    Raises UsageError if there is no such operation or the note cannot be kept, OperationBusy,
    StoreUnavailable.
    """
    if not note.strip():
        raise UsageError("a note is needed: how is it known what became of the operation?")
    if len(note) > NOTE_LENGTH_MAX:
        raise UsageError(f"a note has at most {NOTE_LENGTH_MAX} characters, not {len(note)}")
    wall_ns = look(lambda: at).wall_ns
    before = journal.read(ReadOperation(namespace, operation_id))
    if before is None:
        raise UsageError(f"the journal has no operation {operation_id!r} in {namespace!r}")
    effect = SettleOperation(namespace, operation_id, wall_ns, settlement, note)
    if force:
        return journal.settle(effect)
    after = journal.settle_unless_leased(effect)
    if after.state not in FINISHED:
        raise OperationBusy(
            f"a call is sending {operation_id!r}, or died lately: its lease lasts until "
            f"{as_datetime(after.lease_until_ns):%Y-%m-%d %H:%M:%S} UTC. Nothing was settled"
        )
    if after.attempts > before.attempts and after.state is OperationState.SETTLED:
        # A whole attempt may lie between the first look and the settling; the count tells.
        raise OperationBusy(
            f"{operation_id!r} was settled, but a call had begun another attempt at that moment: "
            "find out what became of that one, and settle it again"
        )
    return after


def as_datetime(at_ns: int) -> datetime:
    """Return a moment in ns since 1970 as an aware datetime in UTC, cut to the microsecond."""
    return _EPOCH + timedelta(microseconds=at_ns // 1000)
