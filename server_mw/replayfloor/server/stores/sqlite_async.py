"""Receipts in one SQLite file: real and durable, for one machine. Standard library only.

SQLite has one writer. A turn (a semaphore) decides on this process's side who that is: an
operation, or a handler's transaction from its first statement to its end. Waiting for the turn
costs no thread; only other processes are waited for inside SQLite. The turn is not a lock of a
task, since a handler may begin in one task and be finished in another.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.shield import in_thread
from replayfloor.server.stores.sqlite_transaction_async import SQLiteTransaction
from replayfloor.server.stores.sqlite_work import (
    begin,
    committed,
    connect,
    finish_claim,
    take_claim,
)

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
            await in_thread(self._disconnect)
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

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        parameters = {"id": renew.id, "fence": renew.fence, "lease_ms": renew.lease_ms}

        def begin_anew(database: sqlite3.Connection) -> bool:
            now = {"now_ms": self.now_ms()}
            query = load("sql/sqlite/claim_renew.sql")
            return database.execute(query, parameters | now).rowcount == 1

        return await self._write(begin_anew)

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
            # Cancelled, perhaps, while the thread opened the transaction all the same.
            with anyio.CancelScope(shield=True):
                await in_thread(self._roll_back)
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
        # Kept by the thread itself: an answer can be lost to a cancellation, a connection not.
        if self._database is None:
            await in_thread(self._connect)
        if self._database is None:
            raise StoreUnavailable("the store was closed", performed=False)
        return self._database

    def _connect(self) -> None:
        self._database = self._guarded(partial(connect, self._path), self._operation_s)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _roll_back(self) -> None:
        if self._database is not None:
            self._database.rollback()

    def _guarded(self, work: Callable[[A], T], argument: A) -> T:
        try:
            return work(argument)
        except sqlite3.OperationalError as error:
            # "Locked", "disk full", "cannot open": reported before anything was committed.
            raise StoreUnavailable(f"SQLite {self._path}: {error}", performed=False) from error
