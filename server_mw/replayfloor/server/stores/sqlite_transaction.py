"""A handler's blocking transaction in SQLite, and the connection it writes through."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.stores.protocols import Connection, Parameters, Row
from replayfloor.server.stores.sqlite_work import (
    ENDED,
    NOT_QUIET,
    ReadRows,
    finish_and_commit,
    inside,
    rows,
)
from replayfloor.server.stores.statements import refuse_sqlite_control

T = TypeVar("T")


class Writer(Protocol):
    """The store, as far as a transaction needs it: whose turn it is to write."""

    def enter(self) -> sqlite3.Connection:
        """Take the turn and open a write transaction; `leave` has to follow."""
        ...

    def leave(self) -> None:
        """Give the turn back."""
        ...

    def now_ms(self) -> int:
        """Return the store's time in ms since 1970."""
        ...


class SQLiteTransaction:
    """A handler's transaction. It takes the write lock with its first statement, and not before:
    a handler that waits for something else first holds nobody up."""

    def __init__(self, store: Writer, operation_s: float) -> None:
        """Take nothing yet. `operation_s` is what a statement left behind gets to end by itself."""
        self._store, self._operation_s = store, operation_s
        self._database: sqlite3.Connection | None = None
        self._lent = self._held = True
        # The handler may run statements from several threads; the first one begins.
        self._one_at_a_time = threading.Lock()

    @property
    def connection(self) -> Connection:
        """An object with `execute`. Raises UsageError once the transaction has ended."""
        if not self._lent:
            raise UsageError(ENDED)
        return SQLiteConnection(self)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` inside the transaction."""
        with self._one_at_a_time:
            if not self._lent:
                raise UsageError(ENDED)
            return self._inside(work)

    def _inside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._database is None:
            self._database = self._store.enter()
        return inside(self._database, work)

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        if not self._lent:
            raise UsageError(ENDED)
        self._lent = False
        try:
            with self._quiet() as quiet:
                if not quiet:
                    raise StoreUnavailable(NOT_QUIET, performed=False)
                work = partial(finish_and_commit, finish=finish, now_ms=self._store.now_ms)
                return self._inside(work)
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"SQLite did not commit: {error}", performed=False) from error
        finally:
            self.rollback()

    def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only gives the turn back."""
        self._lent = False
        with self._quiet():
            if self._held:
                self._held = False
                self._end()

    def _end(self) -> None:
        if self._database is not None:
            try:
                with suppress(sqlite3.Error):
                    self._database.rollback()
            finally:
                self._store.leave()

    @contextmanager
    def _quiet(self) -> Generator[bool]:
        """Hold off the handler's statements; says whether all of them had ended.

        One that a thread of the handler has left behind is interrupted after a while.
        """
        quiet = self._one_at_a_time.acquire(timeout=self._operation_s)
        if not quiet:
            if self._database is not None:
                self._database.interrupt()
            self._one_at_a_time.acquire()
        try:
            yield quiet
        finally:
            self._one_at_a_time.release()


class SQLiteConnection:
    """What `claim.connection` is on SQLite: statements inside the receipt's transaction."""

    def __init__(self, transaction: SQLiteTransaction) -> None:
        """Belong to a transaction, which may not have begun yet."""
        self._transaction = transaction

    def execute(self, query: str, params: Parameters | None = None) -> SQLiteCursor:
        """Run one statement, with `:name` or `?` parameters; its rows are read at once.

        Raises UsageError for a statement that would end the transaction, and the errors of
        `sqlite3` as they are.
        """
        refuse_sqlite_control(query)
        return SQLiteCursor(self._transaction.run(partial(rows, query=query, params=params)))


class SQLiteCursor:
    """Rows that were read already, in the shape of a cursor."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold the rows."""
        self._rows = ReadRows(rows)

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        return self._rows.next()

    def fetchall(self) -> Sequence[Row]:
        """Return the rows that are left."""
        return self._rows.rest()
