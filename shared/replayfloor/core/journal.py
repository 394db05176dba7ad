"""The client's journal: its entry, the effects on it, and what each of them does to an entry.

The journal is the write-ahead record of operations: the key and the moment of the first attempt
are durable before the first byte leaves, so that a process that starts again sends the same key
and respects the same send deadline. How an entry is stored is not here.

All moments are ns since 1970, UTC. Moments in an entry only grow: a clock that was set back never
makes an operation younger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.outcome import Outcome, join

EVIDENCE_LENGTH_MAX = 500
"""Characters of evidence kept: enough for an exception's text, too few for a response body."""

PENDING_MAX = 1000
"""Entries returned by one look at what is pending: a bound for memory, not for the journal."""


class OperationState(StrEnum):
    """What may still happen to an operation."""

    OPEN = "open"
    """It may be attempted again, with the same key, until its send deadline."""
    UNKNOWN_FINAL = "unknown_final"
    """Its send deadline passed without an answer: never attempted again, needs reconciliation."""
    DONE = "done"
    """Its answer was received. Until the send deadline the same key gets the answer replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One operation. Identified by namespace and operation id, and by namespace and key."""

    namespace: str
    """Provider, account and mode: whatever the provider scopes a key to."""
    operation_id: str
    key: str
    method: str
    origin: str
    """Scheme, host and port."""
    path: str
    """Without the query, which may hold what should not be stored; the fingerprint covers it."""
    fingerprint: Fingerprint
    first_attempt_at_ns: int
    retention_s: float
    """The provider's key retention as it was known at the first attempt."""
    send_deadline_ns: int
    attempts: int = 1
    """Attempts that were begun, the crashed ones included."""
    attempts_ended: int = 0
    """Attempts whose outcome was recorded. If fewer than begun, one of them may have been sent."""
    last_attempt_at_ns: int
    last_seen_at_ns: int
    """The latest moment any write of this entry knew of."""
    worst: Outcome = Outcome.NOT_SENT
    state: OperationState = OperationState.OPEN
    final_status: int | None = None
    last_evidence: str | None = None

    @property
    def known(self) -> Outcome:
        """What is known, counting an attempt without a recorded outcome as one that was sent."""
        lost = self.attempts > self.attempts_ended
        return join(self.worst, Outcome.UNKNOWN) if lost else self.worst


@dataclass(frozen=True, slots=True)
class Begun:
    """The entry that stands. `resumed`: it stood there before."""

    entry: JournalEntry
    resumed: bool


@dataclass(frozen=True, slots=True)
class BeginOperation(Effect[Begun]):
    """Write ahead: insert the entry, or return the one that stands.

    - It returns after the entry is durable: it survives the process, and the machine's power.
    - Of any number of simultaneous calls for one operation id, exactly one is told that its entry
      was inserted; all others get that entry.
    - An entry that stands is returned unchanged.
    - If no entry has the operation id but one of the namespace has the key, that one is returned.
    - Namespaces share nothing.
    - Raises StoreUnavailable; the entry may stand nevertheless.
    """

    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class StartAttempt(Effect[JournalEntry]):
    """Count one more attempt, durably, before it is sent; return the entry after it.

    - Simultaneous calls count once each.
    - An entry in state unknown_final is returned as it is: the attempt must not be sent.
    - The moments never get smaller.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class EndAttempt(Effect[JournalEntry]):
    """Record the outcome of one attempt; return the entry after it.

    - The worst outcome becomes the join of what was known and `outcome`: it never decreases.
    - With `done`, the state becomes done, from any state, and `final_status` is kept; without it
      the state and an earlier final status stay.
    - The evidence is replaced, cut to EVIDENCE_LENGTH_MAX characters.
    - The moments never get smaller.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    outcome: Outcome
    evidence: str
    done: bool = False
    final_status: int | None = None


@dataclass(frozen=True, slots=True)
class CloseOperation(Effect[JournalEntry]):
    """Record, durably, that the send deadline has passed; return the entry after it.

    - An open operation becomes unknown_final, and nothing makes it open again.
    - A done operation stays done.
    - The moment is kept, so that a clock that is set back later does not undo it.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class ReadPending(Effect[tuple[JournalEntry, ...]]):
    """Return what is not done (open or unknown_final), the oldest first attempt first.

    - `namespace` None means every namespace.
    - At most `limit` entries.
    - Raises StoreUnavailable.
    """

    namespace: str | None = None
    limit: int = PENDING_MAX


EVERY_PENDING = ReadPending()
"""The usual question."""


# -- what the effects do to an entry: the reference that every journal has to match ---------------


def with_attempt_started(entry: JournalEntry, effect: StartAttempt) -> JournalEntry:
    """Return the entry after StartAttempt."""
    if entry.state is OperationState.UNKNOWN_FINAL:
        return entry
    return replace(
        entry,
        attempts=entry.attempts + 1,
        last_attempt_at_ns=max(entry.last_attempt_at_ns, effect.at_ns),
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
    )


def with_attempt_ended(entry: JournalEntry, effect: EndAttempt) -> JournalEntry:
    """Return the entry after EndAttempt."""
    return replace(
        entry,
        attempts_ended=entry.attempts_ended + 1,
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        worst=join(entry.worst, effect.outcome),
        state=OperationState.DONE if effect.done else entry.state,
        final_status=effect.final_status if effect.done else entry.final_status,
        last_evidence=effect.evidence[:EVIDENCE_LENGTH_MAX],
    )


def with_operation_closed(entry: JournalEntry, effect: CloseOperation) -> JournalEntry:
    """Return the entry after CloseOperation."""
    open_ = entry.state is OperationState.OPEN
    return replace(
        entry,
        last_seen_at_ns=max(entry.last_seen_at_ns, effect.at_ns),
        state=OperationState.UNKNOWN_FINAL if open_ else entry.state,
    )
