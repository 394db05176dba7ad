"""The journal of the simulated world: it fails on demand, remembers everything, has its own clock.

It performs every effect as `MemoryJournal` does. The world around it is in `client_world`.
"""

from __future__ import annotations

from replayfloor.client.journal import MemoryJournal
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    COUNT_PENDING,
    EVERY_PENDING,
    FIRST_HISTORY,
    BeginOperation,
    Begun,
    CloseOperation,
    CountPending,
    EndAttempt,
    JournalEntry,
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


class SimulatedJournal(MemoryJournal):
    """A journal that can be down, and that keeps every version of every entry in `versions`.

    Its clock, by which leases end, is `ahead_ns` ahead of the callers' (behind, if negative).
    """

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.ahead_ns = 0
        self.versions: list[JournalEntry] = []

    def clock_ns(self, at_ns: int) -> int:
        """Return what the clock of the leases shows when a caller's shows `at_ns`."""
        return at_ns + self.ahead_ns

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        self._fail_if_down()
        begun = super().begin(effect)
        self.versions.append(begun.entry)
        return begun

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        self._fail_if_down()
        return self._noted(super().start_attempt(effect))

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        self._fail_if_down()
        return self._noted(super().end_attempt(effect))

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        self._fail_if_down()
        return self._noted(super().close_operation(effect))

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        self._fail_if_down()
        return self._noted(super().renew_lease(effect))

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        self._fail_if_down()
        return self._noted(super().release_lease(effect))

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        self._fail_if_down()
        return self._noted(super().settle(effect))

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        self._fail_if_down()
        return super().read(effect)

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        self._fail_if_down()
        return super().prune(effect)

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        self._fail_if_down()
        return super().pending(effect)

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        self._fail_if_down()
        return super().history(effect)

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        self._fail_if_down()
        return super().count_pending(effect)

    def _noted(self, entry: JournalEntry) -> JournalEntry:
        self.versions.append(entry)
        return entry

    def _fail_if_down(self) -> None:
        if self.down:
            raise StoreUnavailable("the simulated journal is down")
