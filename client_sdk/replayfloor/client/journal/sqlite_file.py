"""One SQLite file: one connection behind one lock, forks, errors. No statements.

SQLite has one writer anyway, and a second connection of this process would only add "database is
locked". How the file is opened, and whose it is, is in `sqlite_open`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from replayfloor.client.journal.rows import Row, Value
from replayfloor.client.journal.sqlite_open import BUSY_TIMEOUT_S, FULL, open_journal
from replayfloor.core.errors import StoreUnavailable

FORK_S: Final = BUSY_TIMEOUT_S + 1.0
"""How long a fork waits for a write: longer than SQLite itself waits for another process."""

FORKED: Final = (
    "the process was forked while the file was written to, and SQLite's locks were copied as they "
    "were: fork before the first call, or start the process anew (spawn, exec)"
)

_NORMAL: Final = "pragma synchronous = normal"
"""A commit is with the operating system: it survives the process, not a loss of power."""

_abandoned: list[sqlite3.Connection] = []
"""Connections of the parent process, kept alive in a child: closing one there could remove the
write-ahead log of a file that the parent still writes to."""

_unusable: set[str] = set()
"""Paths of files whose locks were copied into this process by a fork."""

_files: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()


class SQLiteFile:
    """The file, opened at the first statement of each process; `close` is for good."""

    def __init__(self, path: str, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._forking: int | None = None
        """The thread that has the lock until its fork is done."""
        self._waits = True
        """Whether a commit of the connection waits for the disk."""
        _files.add(self)

    def run(
        self, statement: str, arguments: Mapping[str, Value], *, durable: bool = True
    ) -> list[Row]:
        """Run one statement in a transaction of its own; return its rows.

        With `durable` what it writes is on the disk when it returns, and everything that was
        written before it. Raises StoreUnavailable; then it is not known whether it was performed.
        """
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the journal was closed")
            try:
                if self._connection is None:
                    self._connection = self._opened()
                    self._waits = True
                if self._waits is not durable:
                    self._wait_for_disk(self._connection, durable=durable)
                cursor = self._connection.execute(statement, arguments)
                return [_row(cursor, values) for values in cursor.fetchall()]
            except (sqlite3.Error, OverflowError, UnicodeError) as error:
                raise StoreUnavailable(f"SQLite journal {self._path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        if _unusable and os.path.realpath(self._path) in _unusable:
            raise StoreUnavailable(f"SQLite journal {self._path}: {FORKED}", performed=False)
        return open_journal(self._path, self._schema)

    def _wait_for_disk(self, connection: sqlite3.Connection, *, durable: bool) -> None:
        # Of one connection, because a second one would read its pages anew after each write of the
        # first. As a script, which is compiled each time: SQLite performs this pragma when it is
        # compiled, and a statement that Python kept would do nothing.
        self._waits = True
        connection.executescript(FULL if durable else _NORMAL)
        self._waits = durable

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        """Let go of the file, if its owner did not: every write was durable when it returned."""
        connection: sqlite3.Connection | None = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    # -- for a fork -----------------------------------------------------------------------------

    def pause(self) -> None:
        """Close the file before this process forks; it is opened again by whoever needs it.

        SQLite keeps in memory which locks a process has on a file, behind mutexes of its own. In
        the middle of a write all of that would be copied, and neither the locks nor the thread
        that lets go of the mutex: the child would hang, or write without a lock.
        """
        if self._lock.acquire(timeout=FORK_S):
            # By thread, because two of them may fork at a time, and one wait in vain.
            self._forking = threading.get_ident()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def resume(self) -> None:
        """Go on in the parent."""
        if self._forking == threading.get_ident():
            self._forking = None
            self._lock.release()

    def begin_anew(self) -> None:
        """Go on in the child: the lock may be held by a thread that is not here."""
        paused = self._forking == threading.get_ident()
        self._lock, self._forking = threading.Lock(), None
        if self._connection is not None:
            _abandoned.append(self._connection)
            self._connection = None
        if not paused:
            _unusable.add(os.path.realpath(self._path))


def _each(do: Callable[[SQLiteFile], None]) -> None:
    for file in list(_files):
        do(file)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=partial(_each, SQLiteFile.pause),
        after_in_parent=partial(_each, SQLiteFile.resume),
        after_in_child=partial(_each, SQLiteFile.begin_anew),
    )


def _row(cursor: sqlite3.Cursor, values: tuple[Value, ...]) -> Row:
    return dict(zip((column[0] for column in cursor.description), values, strict=True))
