"""A handler's transaction in SQLite, and the connection it writes through."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

import anyio

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.shield import in_thread
from replayfloor.server.stores import AsyncConnection, Parameters, Row
from replayfloor.server.stores.sqlite_work import commit, finish_claim, rows
from replayfloor.server.stores.statements import refuse_transaction_control

T = TypeVar("T")

ENDED = "the claim's transaction has ended; nothing can be written any more"


class Writer(Protocol):
    """The store, as far as a transaction needs it: whose turn it is to write."""

    async def enter(self) -> sqlite3.Connection:
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

    def __init__(self, store: Writer) -> None:
        """Take nothing yet."""
        self._store = store
        self._database: sqlite3.Connection | None = None
        self._ended = False
        # The handler may run statements from several tasks; the first one begins.
        self._one_at_a_time = anyio.Lock()

    @property
    def connection(self) -> AsyncConnection:
        """An object with `execute`. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError(ENDED)
        return SQLiteConnection(self)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` inside the transaction, in a worker thread."""
        async with self._one_at_a_time:
            if self._ended:
                raise UsageError(ENDED)
            if self._database is None:
                self._database = await self._store.enter()
            return await in_thread(partial(_inside, self._database, work))

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        work = partial(_finish_and_commit, finish=finish, now_ms=self._store.now_ms)
        try:
            return await self.run(work)
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"SQLite did not commit: {error}", performed=False) from error
        finally:
            await self.rollback()

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only gives the turn back."""
        with anyio.CancelScope(shield=True):
            async with self._one_at_a_time:
                if self._ended:
                    return
                self._ended = True
                if self._database is None:
                    return
                try:
                    with suppress(sqlite3.Error):
                        await in_thread(self._database.rollback)
                finally:
                    self._store.leave()


class SQLiteConnection:
    """What `claim.connection` is on SQLite: statements inside the receipt's transaction."""

    def __init__(self, transaction: SQLiteTransaction) -> None:
        """Belong to a transaction, which may not have begun yet."""
        self._transaction = transaction

    async def execute(self, query: str, params: Parameters | None = None) -> SQLiteCursor:
        """Run one statement, with `:name` or `?` parameters; its rows are read at once.

        Raises UsageError for a statement that would end the transaction, and the errors of
        `sqlite3` as they are.
        """
        refuse_transaction_control(query)
        run = partial(rows, query=query, params=params)
        return SQLiteCursor(await self._transaction.run(run))


class SQLiteCursor:
    """Rows that were read already, in the shape of an asynchronous cursor."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold the rows."""
        self._rows = list(rows)

    async def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        return self._rows.pop(0) if self._rows else None

    async def fetchall(self) -> Sequence[Row]:
        """Return the rows that are left."""
        rows, self._rows = self._rows, []
        return rows


def _inside(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """SQLite ends a transaction by itself on some errors (a full disk, "or rollback"). Whatever
    came after that would be committed statement by statement, without the receipt."""
    if not database.in_transaction:
        raise UsageError("SQLite has rolled the transaction back after an error; it is over")
    return work(database)


def _finish_and_commit(
    database: sqlite3.Connection, *, finish: Finish, now_ms: Callable[[], int]
) -> bool:
    finished = finish_claim(database, finish=finish, now_ms=now_ms)
    if finished:
        commit(database)
    return finished
