"""Journals: what the transport writes ahead to. The protocol, and opening one from a URL.

The contract of each operation is the docstring of its effect in `replayfloor.core.journal`; the
tests in `replayfloor.testing.journal_contract` hold every journal to it.
"""

from __future__ import annotations

import re
from typing import Protocol
from urllib.parse import unquote

from replayfloor.client.journal.memory import MemoryJournal
from replayfloor.client.journal.postgres import PostgresJournal
from replayfloor.client.journal.sqlite import SQLiteJournal
from replayfloor.core.errors import ConfigurationError
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

__all__ = ["Journal", "MemoryJournal", "PostgresJournal", "SQLiteJournal", "open_journal"]

_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_MEMORY = "memory:"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=:)")


class Journal(Protocol):
    """The write-ahead record of operations. Safe to use from several threads at once."""

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        ...

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        ...

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        ...

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        ...

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        ...

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        ...

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        ...

    def settle_unless_leased(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation, unless a call holds a lease that has not ended.

        Then the entry is returned as it is: neither done nor settled. Looking and settling are one
        step, and the lease is judged by the clock that it was given by.
        """
        ...

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        ...

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        ...

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        ...

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        ...

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        ...

    def close(self) -> None:
        """Release what is held. Every later operation raises StoreUnavailable."""
        ...


def open_journal(
    url: str, *, creates: bool = True
) -> MemoryJournal | PostgresJournal | SQLiteJournal:
    """Return the journal of a URL; nothing is opened before its first use.

    `memory:`, `sqlite:///path` (four slashes: from the root), or `postgresql://…` (`postgres://…`
    too), which needs the extra `journal-postgres`. With `creates` False a schema in Postgres is not
    made where there is none: for a mere look. Raises ConfigurationError for any other.
    """
    if url == _MEMORY:
        return MemoryJournal()
    if url.startswith(_POSTGRES):
        return PostgresJournal(url, creates=creates)
    path = unquote(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE) or not path or path.startswith(":"):
        # Not the whole of it: a mistyped URL of a database holds a password all the same.
        scheme = _SCHEME.match(url)
        raise ConfigurationError(
            f"a journal URL is {_MEMORY}, {_SQLITE}path or {_POSTGRES[0]}…, and not "
            + (f"one of {scheme[0]!r}" if scheme else "this one")
        )
    return SQLiteJournal(path)
