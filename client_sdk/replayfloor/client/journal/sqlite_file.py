"""One SQLite file: opening it, whose it is, one connection per process, errors. No statements.

One connection behind one lock: SQLite has one writer anyway, and a second connection of this
process would only add "database is locked".
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Final

from replayfloor.client.journal.rows import Row, Value
from replayfloor.core.errors import ConfigurationError, StoreUnavailable

APPLICATION_ID: Final = 0x52504C46
"""Marks a file as ours ("RPLF"), so that another program's file is not taken for one."""

SCHEMA_VERSION: Final = 2

BUSY_TIMEOUT_S: Final = 5.0
"""How long a write waits for another process. A write takes one flush of the disk, some ms."""

_WAL_RETRY_S: Final = 0.01

_FULL: Final = "pragma synchronous = full"
"""A commit waits until the write-ahead log is on the disk, with all that is in it."""

_NORMAL: Final = "pragma synchronous = normal"
"""A commit is with the operating system: it survives the process, not a loss of power."""

_abandoned: list[sqlite3.Connection] = []
"""Connections of the parent process, kept alive in a child: closing one there could remove the
write-ahead log of a file that the parent still writes to."""

_files: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()


class SQLiteFile:
    """The file, opened at the first statement of each process; `close` is for good."""

    def __init__(self, path: str, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
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
                    self._connection = _open(self._path, self._schema)
                    self._waits = True
                if self._waits is not durable:
                    self._wait_for_disk(self._connection, durable=durable)
                cursor = self._connection.execute(statement, arguments)
                return [_row(cursor, values) for values in cursor.fetchall()]
            except (sqlite3.Error, OverflowError, UnicodeError) as error:
                raise StoreUnavailable(f"SQLite journal {self._path}: {error}") from error

    def _wait_for_disk(self, connection: sqlite3.Connection, *, durable: bool) -> None:
        # Of one connection, because a second one would read its pages anew after each write of the
        # first. As a script, which is compiled each time: SQLite performs this pragma when it is
        # compiled, and a statement that Python kept would do nothing.
        self._waits = True
        connection.executescript(_FULL if durable else _NORMAL)
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

    def forget(self) -> None:
        """Start anew in a child process: the lock may be held by a thread that is not here.

        A fork in the middle of a transaction is beyond help: SQLite's own locks are copied, held.
        Fork before the first write, as pre-forking servers do.
        """
        self._lock = threading.Lock()
        if self._connection is not None:
            _abandoned.append(self._connection)
            self._connection = None


def _forget_all() -> None:
    for file in list(_files):
        file.forget()


os.register_at_fork(after_in_child=_forget_all)


def _row(cursor: sqlite3.Cursor, values: tuple[Value, ...]) -> Row:
    return dict(zip((column[0] for column in cursor.description), values, strict=True))


def _open(path: str, schema: str) -> sqlite3.Connection:
    # Autocommit: a statement that fails, or whose caller is cancelled, leaves no transaction open.
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # Before anything is written: another program's file is left as it is.
        ours = _is_ours(connection, path)
        _use_wal(connection)
        connection.executescript(_FULL)
        if not ours:
            connection.executescript(schema)
            _is_ours(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    # The switch fails at once, whatever the busy timeout, when several processes open the file.
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal").fetchall()
            return
        except sqlite3.OperationalError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(_WAL_RETRY_S)


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """Return False for an empty file; raises ConfigurationError for anybody else's."""
    application = _number(connection, "pragma application_id")
    version = _number(connection, "pragma user_version")
    if (application, version) == (APPLICATION_ID, SCHEMA_VERSION):
        return True
    if application == APPLICATION_ID:
        raise ConfigurationError(
            f"the journal {path} has schema version {version}, this release knows "
            f"{SCHEMA_VERSION}: {_advice(version)}"
        )
    if application or version or _number(connection, "select count(*) from sqlite_master"):
        raise ConfigurationError(f"{path} is a SQLite database, but not a journal of replayfloor")
    return False


def _advice(version: int) -> str:
    if version > SCHEMA_VERSION:
        return "use the release that wrote it, or a newer one"
    # No release wrote an older one, so that none is brought up to date.
    return (
        "reconcile what is pending in it, then move the file (with its -wal and -shm) away; "
        "a new one is made in its place"
    )


def _number(connection: sqlite3.Connection, statement: str) -> int:
    (value,) = connection.execute(statement).fetchone()
    return int(value)
