"""The SQLite file: opened durable and with its schema, and the transactions on it. It blocks.

One connection per store. The caller holds the turn (see sqlite.py), and runs what is here in a
worker thread if it has an event loop.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from replayfloor.core.errors import SchemaMissing, StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores.sqlite_work import begin, commit, committed

T = TypeVar("T")

SCHEMA_VERSION = 3

WAL_TRIES = 50
"""Switching a new file to WAL fails at once while another process does the same."""

WAL_PAUSE_S = 0.02


class Database:
    """The one connection of a store, opened when it is first needed. The caller holds the turn."""

    def __init__(self, path: Path, operation_s: float) -> None:
        """Open nothing yet."""
        self._path, self._operation_s = path, operation_s
        self._connection: sqlite3.Connection | None = None

    def ready(self) -> sqlite3.Connection:
        """Return the open connection; connect, and create the file, if it must be."""
        if self._connection is None:
            self._connection = self.guarded(partial(connect, self._path, self._operation_s))
        return self._connection

    def committed(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction of its own."""
        return self.guarded(partial(committed, work, self.ready()))

    def begun(self) -> sqlite3.Connection:
        """Return the connection, with a transaction open that may write."""
        connection = self.ready()
        self.guarded(partial(begin, connection))
        return connection

    def roll_back(self) -> None:
        """Undo what is open, if something is."""
        if self._connection is not None:
            self._connection.rollback()

    def close(self) -> None:
        """Close the file; it may be opened again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def guarded(self, work: Callable[[], T]) -> T:
        """Run `work`; what SQLite cannot do at the moment raises StoreUnavailable."""
        try:
            return work()
        except sqlite3.OperationalError as error:
            # "Locked", "disk full", "cannot open": reported before anything was committed.
            raise StoreUnavailable(f"SQLite {self._path}: {error}", performed=False) from error


def connect(path: Path, busy_s: float) -> sqlite3.Connection:
    """Open or create the file, durable, with its schema; `busy_s` is for other processes."""
    database = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        # FULL: a receipt that was answered from survives a power cut.
        database.execute("pragma synchronous = full")
        _enter_wal(database)
        _create_schema(database)
    except BaseException:
        database.close()
        raise
    return database


def _enter_wal(database: sqlite3.Connection) -> None:
    """The busy timeout does not apply to this pragma: with several starters it fails at once."""
    for _try in range(WAL_TRIES):
        with suppress(sqlite3.OperationalError):
            if database.execute("pragma journal_mode = wal").fetchone() == ("wal",):
                return
        time.sleep(WAL_PAUSE_S)
    raise sqlite3.OperationalError("cannot use write-ahead logging; is the file on a local disk?")


def _create_schema(database: sqlite3.Connection) -> None:
    begin(database)
    try:
        if database.execute(load("sql/sqlite/schema_version.sql")).fetchone() is None:
            _run_all(database, load("sql/sqlite/schema.sql"))
        for version in range(_version(database) + 1, SCHEMA_VERSION + 1):
            _run_all(database, load(f"sql/sqlite/schema_{version}.sql"))
        if (version := _version(database)) != SCHEMA_VERSION:
            raise SchemaMissing(
                f"the file's schema is version {version}, this release needs {SCHEMA_VERSION}"
            )
        commit(database)
    finally:
        database.rollback()


def _run_all(database: sqlite3.Connection, script: str) -> None:
    """Run several statements; sqlite3's own way to do that would commit before the first."""
    for statement in script.split(";"):
        database.execute(statement)


def _version(database: sqlite3.Connection) -> int:
    row = database.execute("select version from replayfloor_schema").fetchone()
    return int(row[0]) if row else 0
