"""A journal that lives as long as the process: for tests, and where a restart may forget.

It keeps the promises of the contract except durability: after a restart the same operation id
starts a new operation with a new key.
"""

from __future__ import annotations

import threading

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    COUNT_PENDING,
    EVERY_PENDING,
    FINISHED,
    FIRST_HISTORY,
    BeginOperation,
    Begun,
    CloseOperation,
    CountPending,
    EndAttempt,
    JournalEntry,
    OperationState,
    PendingCount,
    PruneOperations,
    ReadHistory,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.journal_rules import (
    as_inserted,
    is_in_history,
    leased_to_another,
    may_be_pruned,
    pending_counts,
    place_after,
    with_attempt_ended,
    with_attempt_started,
    with_lease_released,
    with_lease_renewed,
    with_operation_closed,
    with_operation_settled,
)

_Change = StartAttempt | EndAttempt | CloseOperation | RenewLease | ReleaseLease | SettleOperation


class MemoryJournal:
    """Entries in a dictionary, behind a lock."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], JournalEntry] = {}
        self._by_key: dict[tuple[str, str], tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def clock_ns(self, at_ns: int) -> int:
        """Return what the clock of the leases shows when a caller's shows `at_ns`: the same."""
        return at_ns

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        entry = as_inserted(effect, self.clock_ns(effect.entry.last_seen_at_ns))
        place, by_key = (entry.namespace, entry.operation_id), (entry.namespace, entry.key)
        with self._lock:
            self._refuse_if_closed()
            standing = self._entries.get(place)
            if standing is None and by_key in self._by_key:
                standing = self._entries[self._by_key[by_key]]
            if standing is not None:
                return Begun(standing, resumed=True)
            self._by_key[by_key] = place
            self._entries[place] = entry
            return Begun(entry, resumed=False)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        with self._lock:
            now_ns = self.clock_ns(effect.at_ns)
            return self._put(with_attempt_started(self._find(effect), effect, now_ns))

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        with self._lock:
            return self._put(with_attempt_ended(self._find(effect), effect))

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        with self._lock:
            return self._put(with_operation_closed(self._find(effect), effect))

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        with self._lock:
            now_ns = self.clock_ns(effect.at_ns)
            return self._put(with_lease_renewed(self._find(effect), effect, now_ns))

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        with self._lock:
            return self._put(with_lease_released(self._find(effect), effect))

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        with self._lock:
            return self._put(with_operation_settled(self._find(effect), effect))

    def settle_unless_leased(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation, unless a call holds a lease: then nothing is changed."""
        with self._lock:
            entry = self._find(effect)
            now_ns = self.clock_ns(effect.at_ns)
            if entry.state is not OperationState.DONE and leased_to_another(entry, b"", now_ns):
                return entry
            return self._put(with_operation_settled(entry, effect))

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        with self._lock:
            self._refuse_if_closed()
            return self._entries.get((effect.namespace, effect.operation_id))

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        with self._lock:
            self._refuse_if_closed()
            standing = list(self._entries.values())
        # Without the lock: an event loop may be waiting for it, and there may be many to look at.
        old = [entry for entry in standing if may_be_pruned(entry, effect)]
        old.sort(key=lambda entry: entry.last_seen_at_ns)
        removed = 0
        with self._lock:
            self._refuse_if_closed()
            for entry in old[: effect.limit]:
                place = (entry.namespace, entry.operation_id)
                # Unless it is another one by now, or gone.
                if self._entries.get(place) is entry:
                    del self._entries[place]
                    del self._by_key[entry.namespace, entry.key]
                    removed += 1
        return removed

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        with self._lock:
            self._refuse_if_closed()
            found = [
                entry
                for entry in self._entries.values()
                if entry.state not in FINISHED and effect.namespace in (None, entry.namespace)
            ]
        return tuple(sorted(found, key=lambda entry: entry.first_attempt_at_ns)[: effect.limit])

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        place_after(effect)  # refused also where there is no entry to compare it with
        with self._lock:
            self._refuse_if_closed()
            found = [entry for entry in self._entries.values() if is_in_history(entry, effect)]
        found.sort(key=lambda entry: (entry.namespace, entry.operation_id))
        return tuple(found[: effect.limit])

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        with self._lock:
            self._refuse_if_closed()
            return pending_counts(self._entries.values())

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self._by_key.clear()

    def _find(self, effect: _Change) -> JournalEntry:
        self._refuse_if_closed()
        entry = self._entries.get((effect.namespace, effect.operation_id))
        if entry is None:
            raise StoreUnavailable("the journal has no entry of this operation")
        return entry

    def _put(self, entry: JournalEntry) -> JournalEntry:
        self._entries[entry.namespace, entry.operation_id] = entry
        return entry

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the journal was closed")
