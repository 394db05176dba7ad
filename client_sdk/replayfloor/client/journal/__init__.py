"""Journals: what the transport writes ahead to. The protocol, and opening one from a URL.

The contract of each operation is the docstring of its effect in `replayfloor.core.journal`; the
tests in `replayfloor.testing.journal_contract` hold every journal to it.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import unquote

from replayfloor.client.journal.memory import MemoryJournal
from replayfloor.client.journal.sqlite import SQLiteJournal
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.journal import (
    EVERY_PENDING,
    BeginOperation,
    Begun,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    PruneOperations,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)

__all__ = ["Journal", "MemoryJournal", "SQLiteJournal", "open_journal"]

_SQLITE = "sqlite:///"
_MEMORY = "memory:"


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

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        ...

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        ...

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        ...

    def close(self) -> None:
        """Release what is held. Every later operation raises StoreUnavailable."""
        ...


def open_journal(url: str) -> MemoryJournal | SQLiteJournal:
    """Return the journal of a URL: `memory:` or `sqlite:///path` (four slashes: from the root).

    Raises ConfigurationError for any other.
    """
    if url == _MEMORY:
        return MemoryJournal()
    path = unquote(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE) or not path or path.startswith(":"):
        raise ConfigurationError(f"a journal URL is {_MEMORY} or {_SQLITE}path, not {url!r}")
    return SQLiteJournal(path)
