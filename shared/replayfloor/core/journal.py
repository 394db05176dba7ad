"""The client's journal: its entry, and the effects on it, with the contract of each.

The journal is the write-ahead record of operations: the key and the moment of the first attempt
are durable before the first byte leaves, so that a process that starts again sends the same key
and respects the same send deadline. What each effect does to an entry, as code, is in
`replayfloor.core.journal_rules`; how an entry is stored is in neither.

All moments are ns since 1970, UTC. Moments in an entry only grow, as does the elapsed time: a
clock that was set back never makes an operation younger.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.outcome import Outcome, join
from replayfloor.core.values import frozen

EVIDENCE_LENGTH_MAX = 500
"""Characters of evidence kept: enough for an exception's text, too few for a response body."""

NOTE_LENGTH_MAX = 500
"""Characters kept of what a person noted when settling an operation by hand."""

PENDING_MAX = 1000
"""Entries returned by one look at what is pending: a bound for memory, not for the journal."""

HISTORY_MAX = 1000
"""Entries returned by one ReadHistory: whoever wants more asks again, after the last one."""

PRUNED_MAX = 1000
"""Entries removed by one PruneOperations: a short transaction, so that no send waits for it."""

LEASE_OWNER_BYTES = 16
"""Random bytes that name one call: two calls never share a name, over all processes."""


class OperationState(StrEnum):
    """What may still happen to an operation."""

    OPEN = "open"
    """It may be attempted again, with the same key, until its send deadline."""
    UNKNOWN_FINAL = "unknown_final"
    """Its send deadline passed without an answer: never attempted again, needs reconciliation."""
    DONE = "done"
    """Its answer was received. Until the send deadline the same key gets the answer replayed."""
    SETTLED = "settled"
    """Somebody found out what happened and said so: never attempted again."""


FINISHED = frozenset({OperationState.DONE, OperationState.SETTLED})
"""States of an operation whose outcome is known."""

LATCHED = frozenset({OperationState.UNKNOWN_FINAL, OperationState.SETTLED})
"""States in which nothing is ever sent again, whatever the clock shows."""


class Settlement(StrEnum):
    """What somebody who settles an operation by hand has found out."""

    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"


@frozen
class JournalEntry:
    """One operation. Identified by namespace and operation id, and by namespace and key."""

    _: KW_ONLY
    namespace: str
    """Provider, account and mode: whatever the provider scopes a key to."""
    operation_id: str
    key: str
    provider: str = ""
    """The profile's name, for reports."""
    method: str
    origin: str
    """Scheme, host and port."""
    path: str
    """Without the query, which may hold what should not be stored; the fingerprint covers it."""
    fingerprint: Fingerprint
    first_attempt_at_ns: int
    boot_id: str = ""
    """The boot of the machine that made the first attempt; empty if it is not known."""
    first_boot_ns: int = 0
    """The clock that counts from that boot, suspended time included, at the first attempt."""
    elapsed_ns: int = 0
    """The longest time since the first attempt that any write of this entry knew of."""
    retention_s: float
    """The provider's key retention as it is known; 0 if it is not known."""
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
    lease_owner: bytes = b""
    """The call that may send now, LEASE_OWNER_BYTES of its own; empty if nobody may."""
    lease_until_ns: int = 0
    """When the lease ends by itself, by the clock of the journal: the local wall clock, or the
    database's own if several machines share one. 0 without a lease."""
    response: bytes | None = None
    """The answer as `replayfloor.core.receipt` encodes it, if the transport was told to keep it."""
    settlement: Settlement | None = None
    note: str | None = None
    """What was noted when the operation was settled by hand."""

    @property
    def known(self) -> Outcome:
        """What is known, counting an attempt without a recorded outcome as one that was sent."""
        lost = self.attempts > self.attempts_ended
        return join(self.worst, Outcome.UNKNOWN) if lost else self.worst


@frozen
class Begun:
    """The entry that stands. `resumed`: it stood there before."""

    entry: JournalEntry
    resumed: bool


@frozen
class BeginOperation(Effect[Begun]):
    """Write ahead: insert the entry, or return the one that stands. Method: `begin`.

    - It returns after the entry is durable: it survives the process, and the machine's power.
    - Of any number of simultaneous calls for one operation id, exactly one is told that its entry
      was inserted; all others get that entry.
    - With `lease_s` above 0 the entry is inserted with the lease of its `lease_owner`, which ends
      `lease_s` after `last_seen_at_ns` (or after the journal's own clock, see the entry).
    - An entry that stands is returned unchanged, its lease included.
    - If no entry has the operation id but one of the namespace has the key, that one is returned.
    - Namespaces share nothing.
    - The evidence and the note are kept as EndAttempt and SettleOperation keep theirs.
    - Raises UsageError, and writes nothing, if a name in the entry (any text of it but the evidence
      and the note) holds what no store can keep: NUL, or half of a surrogate pair. So no entry has
      such a name: every other effect treats an operation that has one as one that is not there.
    - Raises StoreUnavailable; the entry may stand nevertheless.
    """

    entry: JournalEntry
    lease_s: float = 0.0


@frozen
class StartAttempt(Effect[JournalEntry]):
    """Take the lease and count one more attempt, durably, before it is sent. Method:
    `start_attempt`.

    - One compare-and-set: if another call holds a lease that has not ended, the entry is returned
      as it is, and nothing was counted. The caller sees another's `lease_owner` in it.
    - Otherwise (no lease, an ended one, the caller's own) the attempt is counted, and with a
      `lease_owner` the lease is the caller's until `lease_s` from now.
    - Simultaneous calls without a `lease_owner` count once each, if nobody holds a lease.
    - An entry in state unknown_final or settled is returned as it is: nothing may be sent.
    - An operation that is done because it was refused is open again once an attempt is counted:
      this one may be executed. Its final status and its kept answer go.
    - The moments and the elapsed time never get smaller.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    elapsed_ns: int = 0
    lease_owner: bytes = b""
    lease_s: float = 0.0


@frozen
class EndAttempt(Effect[JournalEntry]):
    """Record the outcome of one attempt; return the entry after it. Method: `end_attempt`.

    - The worst outcome becomes the join of what was known and `outcome`: it never decreases.
    - With `done`, the state becomes done, from any state, and `final_status` and `response` are
      kept, unless what is known afterwards leaves it open whether it was executed: a refusal says
      nothing of another attempt that was lost, or has not ended. Then, and without `done`, the
      state, an earlier final status and an earlier response stay.
    - With `done`, a lease of `lease_owner` ends; any other stays, and without `done` every lease.
    - Without `response` an earlier one stays.
    - With `retention_s`, it and `send_deadline_ns` replace those of the entry: the provider said
      for how long it keeps keys. Without it both stay.
    - The evidence is replaced, cut to EVIDENCE_LENGTH_MAX characters; U+FFFD stands in it for what
      no store can keep (see BeginOperation).
    - The moments and the elapsed time never get smaller.
    - It counts whoever holds the lease: what an attempt has taught is true in any case.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    outcome: Outcome
    evidence: str
    done: bool = False
    final_status: int | None = None
    elapsed_ns: int = 0
    lease_owner: bytes = b""
    response: bytes | None = None
    retention_s: float | None = None
    send_deadline_ns: int = 0


@frozen
class RenewLease(Effect[JournalEntry]):
    """Keep the lease over a wait that is longer than it; return the entry after it. Method:
    `renew_lease`.

    - A lease of `lease_owner` ends `lease_s` from now, also if it had ended and nobody took it.
    - Anybody else's stays, and so does an entry without one.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    lease_owner: bytes
    lease_s: float


@frozen
class ReleaseLease(Effect[JournalEntry]):
    """Give the lease back; return the entry after it. Method: `release_lease`.

    - A lease of `lease_owner` is gone afterwards; anybody else's stays.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    lease_owner: bytes


@frozen
class CloseOperation(Effect[JournalEntry]):
    """Record, durably, that the send deadline has passed; return the entry after it. Method:
    `close_operation`.

    - An open operation becomes unknown_final, and nothing makes it open again.
    - A done or settled operation stays what it is.
    - The moment and the elapsed time are kept, so that a clock that is set back later does not
      undo it. Every lease ends.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    elapsed_ns: int = 0


@frozen
class SettleOperation(Effect[JournalEntry]):
    """Record, durably, what somebody found out about an operation; return the entry after it.
    Method: `settle`.

    - An open or unknown_final operation becomes settled, with the settlement and the note (cut to
      NOTE_LENGTH_MAX characters, and kept as evidence is); every lease ends.
    - A done operation stays done: its answer is known. A settled one gets the new settlement.
    - The moment never gets smaller.
    - Raises StoreUnavailable, also for an operation that is not there.
    """

    namespace: str
    operation_id: str
    at_ns: int
    settlement: Settlement
    note: str


@frozen
class ReadOperation(Effect["JournalEntry | None"]):
    """Return the entry of an operation id, or None if there is none. Method: `read`.

    - Raises StoreUnavailable.
    """

    namespace: str
    operation_id: str


@frozen
class ReadPending(Effect[tuple[JournalEntry, ...]]):
    """Return what is open or unknown_final, the oldest first attempt first. Method: `pending`.

    - `namespace` None means every namespace.
    - At most `limit` entries.
    - Raises StoreUnavailable.
    """

    namespace: str | None = None
    limit: int = PENDING_MAX


@frozen
class ReadHistory(Effect[tuple[JournalEntry, ...]]):
    """Return entries of every state, in the order of namespace and operation id. Method:
    `history`.

    - Texts are ordered by their code points.
    - `namespace` None means every namespace.
    - It begins behind the place `after`, a namespace and an operation id, whether or not an entry
      is there; with None it begins with the first.
    - At most `limit` entries. So a whole journal is read by asking again after the last entry,
      until fewer than `limit` come: an entry that stands all the while comes exactly once.
    - Raises UsageError for a place that no entry can have (see BeginOperation).
    - Raises StoreUnavailable.
    """

    namespace: str | None = None
    after: tuple[str, str] | None = None
    limit: int = HISTORY_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCount:
    """How many operations of one provider and namespace are in one state, and since when."""

    provider: str
    namespace: str
    state: OperationState
    """OPEN or UNKNOWN_FINAL."""
    count: int
    """At least 1."""
    oldest_first_attempt_at_ns: int


@frozen
class CountPending(Effect[tuple[PendingCount, ...]]):
    """Count what is open or unknown_final, however much it is. Method: `count_pending`.

    - One PendingCount for each provider, namespace and state that has any, in the order of
      namespace, provider and state.
    - Raises StoreUnavailable.
    """


@frozen
class PruneOperations(Effect[int]):
    """Remove finished operations of long ago; return how many were removed. Method: `prune`.

    - Removed is what is done or settled, was last seen before `finished_before_ns`, and whose send
      deadline lies before it too: a key that could still be replayed is never forgotten.
    - What is open or unknown_final stays, however old: only somebody's word settles it.
    - `namespace` None means every namespace. At most `limit` entries, the oldest first.
    - Raises StoreUnavailable.
    """

    namespace: str | None
    finished_before_ns: int
    limit: int = PRUNED_MAX


EVERY_PENDING = ReadPending()
"""The usual question."""

FIRST_HISTORY = ReadHistory()
"""The question with which reading a whole journal begins."""

COUNT_PENDING = CountPending()
"""The only question of its kind."""
