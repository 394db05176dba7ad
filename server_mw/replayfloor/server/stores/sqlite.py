"""Receipts in one SQLite file: real and durable, for one machine. Standard library only.

SQLite has one writer. A turn (a semaphore) decides on this process's side who that is: an
operation, or a handler's transaction from its first statement to its end. Waiting for the turn
costs no thread; only other processes are waited for inside SQLite. The turn is not a lock of a
task, since a handler may begin in one task and be finished in another.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import anyio

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish
from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.server.resources import load
from replayfloor.server.stores import AsyncConnection, Parameters, Row
from replayfloor.server.stores.sqlite_work import (
    begin,
    commit,
    committed,
    connect,
    finish_claim,
    rows,
    take_claim,
)
from replayfloor.server.threads import in_thread

T = TypeVar("T")
A = TypeVar("A")

OPERATION_S = 5.0
"""How long an operation waits for its turn and for other processes before the store counts as
unavailable; the same as for Postgres."""


class AsyncSQLiteReceipts:
    """Claims and receipts in a SQLite file, which is created with its schema if it is missing.

    Args:
        path: the file. Its directory must exist and be writable, and be on a local disk.
        operation_s: seconds until an operation raises StoreUnavailable.
        clock: seconds since 1970. Processes that share the file share the machine's clock.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        operation_s: float = OPERATION_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Check the options; open nothing. Raises ConfigurationError."""
        if operation_s <= 0:
            raise ConfigurationError("operation_s must be positive")
        self._path, self._operation_s, self._clock = Path(path), operation_s, clock
        self._turn = anyio.Semaphore(1, max_value=1)
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open or create the file."""
        await self._take_turn()
        try:
            await self._ready()
        finally:
            self._turn.release()

    async def close(self) -> None:
        """Close the file, after whatever is using it."""
        await self._turn.acquire()
        try:
            database, self._database = self._database, None
            if database is not None:
                await in_thread(database.close)
        finally:
            self._turn.release()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return await self._write(partial(take_claim, claim=claim, now_ms=self.now_ms))

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return await self._write(partial(finish_claim, finish=finish, now_ms=self.now_ms))

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        parameters = {"id": abandon.id, "fence": abandon.fence}

        def end(database: sqlite3.Connection) -> bool:
            ended = database.execute(load("sql/sqlite/claim_end.sql"), parameters).fetchall()
            return bool(ended)

        return await self._write(end)

    async def begin(self) -> SQLiteTransaction:
        """See `replayfloor.core.claims.Begin`; the write lock is taken with the first statement."""
        return SQLiteTransaction(self)

    # -- for the transaction ------------------------------------------------------------------

    async def enter(self) -> sqlite3.Connection:
        """Take the turn and open a write transaction; `leave` has to follow."""
        await self._take_turn()
        try:
            database = await self._ready()
            await in_thread(partial(self._guarded, begin, database))
        except BaseException:
            self._turn.release()
            raise
        return database

    def leave(self) -> None:
        """Give the turn back."""
        self._turn.release()

    def now_ms(self) -> int:
        """Return the store's time in ms since 1970."""
        return int(self._clock() * 1000)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction of its own, in a worker thread; it is not cancelled."""
        await self._take_turn()
        try:
            database = await self._ready()
            return await in_thread(partial(self._guarded, partial(committed, work), database))
        finally:
            self._turn.release()

    async def _take_turn(self) -> None:
        try:
            with anyio.fail_after(self._operation_s):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("SQLite is busy in this process", performed=False) from error

    async def _ready(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = await in_thread(
                partial(self._guarded, partial(connect, self._path), self._operation_s)
            )
        return self._database

    def _guarded(self, work: Callable[[A], T], argument: A) -> T:
        try:
            return work(argument)
        except sqlite3.OperationalError as error:
            # "Locked", "disk full", "cannot open": reported before anything was committed.
            raise StoreUnavailable(f"SQLite {self._path}: {error}", performed=False) from error


class SQLiteTransaction:
    """A handler's transaction. It takes the write lock with its first statement, and not before:
    a handler that waits for something else first holds nobody up."""

    def __init__(self, store: AsyncSQLiteReceipts) -> None:
        """Take nothing yet."""
        self._store = store
        self._database: sqlite3.Connection | None = None
        self._ended = False

    @property
    def connection(self) -> AsyncConnection:
        """An object with `execute`. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError("the claim's transaction has ended; nothing can be written any more")
        return SQLiteConnection(self)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` inside the transaction, in a worker thread."""
        if self._ended:
            raise UsageError("the claim's transaction has ended; nothing can be written any more")
        if self._database is None:
            self._database = await self._store.enter()
        return await in_thread(partial(work, self._database))

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            now_ms = self._store.now_ms
            finished = await self.run(partial(finish_claim, finish=finish, now_ms=now_ms))
            if finished:
                await self.run(commit)
                self._end()
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"SQLite did not commit: {error}") from error
        finally:
            await self.rollback()
        return finished

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`."""
        if not self._ended and self._database is not None:
            with anyio.CancelScope(shield=True), suppress(sqlite3.Error):
                await in_thread(self._database.rollback)
        self._end()

    def _end(self) -> None:
        if not self._ended and self._database is not None:
            self._store.leave()
        self._ended = True


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
        words = query.split(None, 1)
        if words and words[0].rstrip(";").upper() in {"COMMIT", "END", "ROLLBACK", "BEGIN"}:
            raise UsageError("the transaction of the receipt is committed by the middleware")
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


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute`. Raises ConfigurationError."""
    rest = url.removeprefix("sqlite:///")
    if rest == url or not rest or "?" in rest:
        raise ConfigurationError(
            f"expected sqlite:///relative/path or sqlite:////absolute/path, got {url!r}"
        )
    return Path(unquote(rest))
