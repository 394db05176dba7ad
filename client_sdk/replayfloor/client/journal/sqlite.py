"""A journal in one SQLite file: durable, for any number of threads and processes of one machine.

Every method is arguments, one statement, decode; the statements are in `sql/`. How the file is
opened is in `sqlite_file`, how an entry is a row in `rows`. A lease ends by the wall clock
that every process of the machine shares, which is the one of the effects' moments.
"""

from __future__ import annotations

import os
from typing import Final

from replayfloor.client.journal.arguments import (
    Arguments,
    of_begin,
    of_close,
    of_end,
    of_history,
    of_pending,
    of_prune,
    of_read,
    of_release,
    of_renew,
    of_settle,
    of_start,
)
from replayfloor.client.journal.rows import (
    Row,
    decoded,
    decoded_count,
    may_match,
)
from replayfloor.client.journal.sqlite_file import SQLiteFile
from replayfloor.client.journal.statements import sqlite_statement
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
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
from replayfloor.core.journal_rules import as_inserted

NOT_FILES: Final = ("", ":memory:")
"""SQLite's names of databases that are gone when they are closed."""

_INSERT: Final = sqlite_statement("insert_operation")
_FIND: Final = sqlite_statement("find_operation")
_START: Final = sqlite_statement("start_attempt")
_END: Final = sqlite_statement("end_attempt")
_CLOSE: Final = sqlite_statement("close_operation")
_RENEW: Final = sqlite_statement("renew_lease")
_RELEASE: Final = sqlite_statement("release_lease")
_SETTLE: Final = sqlite_statement("settle_operation")
_READ: Final = sqlite_statement("read_operation")
_PENDING: Final = sqlite_statement("read_pending")
_HISTORY: Final = sqlite_statement("read_history")
_COUNT: Final = sqlite_statement("count_pending")
_PRUNE: Final = sqlite_statement("prune_operations")


class SQLiteJournal:
    """Entries in the file `path`, which is made if it is not there; opened at the first use.

    Every write survives the process when the call returns, and the machine's power
    (synchronous=FULL) but for one: the end of an attempt that finishes its operation, with which
    no deadline changes, is on the disk with the next write that waits for it (synchronous=NORMAL).
    If the power fails before that, the operation is open as it was before it was sent.

    A process may fork: the file is closed before, and opened anew by parent and child, so that
    `os.fork` waits for a write that is under way (SQLite's locks do not survive being copied).

    Raises StoreUnavailable if the file cannot be read or written, ConfigurationError if it belongs
    to another program or has the schema of another release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open nothing yet. Raises ConfigurationError for a database that is not a file."""
        if os.fspath(path) in NOT_FILES:
            raise ConfigurationError("the journal needs a file; MemoryJournal() does without one")
        self._file = SQLiteFile(os.fspath(path), sqlite_statement("create_schema"))

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        # Two statements, and yet one decision: the unique indexes make it in the first. Between
        # the two, the entry that refused can only be pruned; then the second finds nothing, which
        # is told as StoreUnavailable, and nothing was sent.
        entry = as_inserted(effect)
        arguments = of_begin(effect, entry)
        if self._rows(_INSERT, arguments):
            return Begun(entry, resumed=False)
        return Begun(self._one(_FIND, arguments), resumed=True)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        return self._one(_START, of_start(effect))

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        return self._one(_END, of_end(effect), durable=_must_last(effect))

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        return self._one(_CLOSE, of_close(effect))

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        return self._one(_RENEW, of_renew(effect))

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        return self._one(_RELEASE, of_release(effect))

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        return self._one(_SETTLE, of_settle(effect, force=True))

    def settle_unless_leased(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation, unless a call holds a lease: then nothing is changed."""
        return self._one(_SETTLE, of_settle(effect, force=False))

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        rows = self._rows(_READ, of_read(effect))
        return decoded(rows[0]) if rows else None

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        return tuple(map(decoded, self._rows(_PENDING, of_pending(effect))))

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        return tuple(map(decoded, self._rows(_HISTORY, of_history(effect))))

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        return tuple(map(decoded_count, self._rows(_COUNT, {})))

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        return len(self._rows(_PRUNE, of_prune(effect)))

    def close(self) -> None:
        """Close the file; it is not opened again."""
        self._file.close()

    def _one(self, statement: str, arguments: Arguments, *, durable: bool = True) -> JournalEntry:
        rows = self._rows(statement, arguments, durable=durable)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return decoded(rows[0])

    def _rows(self, statement: str, arguments: Arguments, *, durable: bool = True) -> list[Row]:
        if not may_match(arguments):
            return []
        return self._file.run(statement, arguments, durable=durable)


def _must_last(effect: EndAttempt) -> bool:
    """Return whether the end of an attempt has to be on the disk before its answer is returned.

    What ends an operation need not: the entry from before the send is there, with its attempt
    counted and not ended, and whoever reads it after a loss of power takes the attempt for one that
    may have been executed and sends the same key within the same deadline. Everything that
    a later attempt goes by has to: an outcome that leaves the operation open, and a retention that
    the server has advertised, because a deadline that is forgotten is one that is too late.
    """
    return not effect.done or effect.retention_s is not None
