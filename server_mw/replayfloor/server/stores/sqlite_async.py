"""Asynchronous receipts in one SQLite file: real and durable, for one machine. No dependency.

SQLite has one writer. A turn (a semaphore) decides on this process's side who that is: operations,
or a handler's transaction from its first statement to its end. Waiting for the turn costs no
thread; only other processes are waited for inside SQLite. The turn is not a lock of a task, since a
handler may begin in one task and be finished in another.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.shield import in_thread
from replayfloor.server.stores.policies import Declaration, Declared
from replayfloor.server.stores.policies_sqlite import declare_policy
from replayfloor.server.stores.sqlite_file import Database
from replayfloor.server.stores.sqlite_finish_in import finish_in_async
from replayfloor.server.stores.sqlite_queue_async import Operations
from replayfloor.server.stores.sqlite_together import Claiming, Finishing
from replayfloor.server.stores.sqlite_transaction_async import AsyncSQLiteTransaction
from replayfloor.server.stores.sqlite_work import (
    BUSY,
    OPERATION_S,
    end_claim,
    renew_claim,
)


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
        self._database = Database(self._path, operation_s)
        self._operations = Operations(self._database, self._turn, operation_s)

    async def open(self) -> None:
        """Open or create the file."""
        await self._take_turn()
        try:
            await in_thread(self._database.ready)
        finally:
            self._turn.release()

    async def close(self) -> None:
        """Close the file, after whatever is using it."""
        await self._turn.acquire()
        try:
            await in_thread(self._database.close)
        finally:
            self._turn.release()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return await self._operations.run(Claiming(claim, self.now_ms))

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return await self._operations.run(Finishing(finish, self.now_ms))

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return await self._operations.run(partial(end_claim, abandon=abandon))

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return await self._operations.run(partial(renew_claim, renew=renew, now_ms=self.now_ms))

    async def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.AsyncReceipts.declare`."""
        work = partial(declare_policy, declaration=declaration, now_ms=self.now_ms)
        return await self._operations.run(work)

    async def begin(self, _id: ReceiptId | None = None, /) -> AsyncSQLiteTransaction:
        """See `replayfloor.core.claims.Begin`; the write lock is taken with the first statement."""
        return AsyncSQLiteTransaction(self, self._operation_s)

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.AsyncReceipts.finish_in`.

        Takes a `sqlite3.Connection` to the store's file, on which it blocks for two statements.
        """
        return await finish_in_async(connection, finish, self.now_ms)

    # -- for the transaction ------------------------------------------------------------------

    async def enter(self) -> sqlite3.Connection:
        """Take the turn and open a write transaction; `leave` has to follow."""
        await self._take_turn()
        try:
            return await in_thread(self._database.begun)
        except BaseException:
            # Cancelled, perhaps, while the thread opened the transaction all the same.
            with anyio.CancelScope(shield=True):
                await in_thread(self._database.roll_back)
            self._turn.release()
            raise

    def leave(self) -> None:
        """Give the turn back."""
        self._turn.release()

    def now_ms(self) -> int:
        """Return the store's time in ms since 1970."""
        return int(self._clock() * 1000)

    async def _take_turn(self) -> None:
        try:
            with anyio.fail_after(self._operation_s):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(BUSY, performed=False) from error
