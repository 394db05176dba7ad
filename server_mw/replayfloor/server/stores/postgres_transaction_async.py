"""A handler's asynchronous transaction in Postgres; what both colours do is said in the other."""

from __future__ import annotations

from time import monotonic
from typing import cast

import anyio
import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.resources import load
from replayfloor.server.shield import here_or_to_the_end, is_free, to_the_end
from replayfloor.server.stores.postgres_connection_async import AnsweredBy, Connection, Pool
from replayfloor.server.stores.postgres_link import (
    CLAIM_LOST,
    CUT_S,
    ENDED,
    NOT_QUIET,
    cut,
    require_open,
    seconds_left,
)
from replayfloor.server.stores.postgres_loan_async import AsyncBorrowedConnection
from replayfloor.server.stores.postgres_values import finish_parameters
from replayfloor.server.stores.protocols import AsyncConnection


class AsyncPostgresTransaction:
    """A handler's transaction on a connection of its own.

    It is a psycopg transaction block, inside which the handler's own commit() and rollback() are
    errors; the handler's `connection.transaction()` becomes a savepoint.
    """

    def __init__(self, pool: Pool, connection: Connection, operation_s: float) -> None:
        """Take the connection over; it goes back to the pool when the transaction ends."""
        self._pool, self._connection, self._operation_s = pool, connection, operation_s
        self._block = psycopg.AsyncTransaction(connection)
        self._begun: psycopg.AsyncTransaction | None = None
        self._view = AsyncBorrowedConnection(self)
        self._held = True
        self.lent = True

    async def start(self, deadline: float) -> None:
        """Open the transaction. Raises StoreUnavailable."""
        try:
            with AnsweredBy(self._connection, deadline):
                self._begun = await self._block.__aenter__()
        except BaseException:
            await self.rollback()
            raise

    @property
    def connection(self) -> AsyncConnection:
        """The handler's view of the connection. Raises UsageError once the transaction ended."""
        self.lend()
        return cast("AsyncConnection", self._view)

    def lend(self) -> Connection:
        """Return the connection itself. Raises UsageError once the transaction has ended."""
        if not self.lent:
            raise UsageError(ENDED)
        return self._connection

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        self.lend()
        self.lent = False
        try:
            deadline = monotonic() + self._operation_s
            if not await self._is_quiet(deadline):
                # Nothing was sent, so nothing was committed, whatever else is not known.
                raise StoreUnavailable(NOT_QUIET, performed=False)
            require_open(self._connection)
            with AnsweredBy(self._connection, deadline):
                await self._finish_and_commit(finish)
            return True
        except psycopg.Error as error:
            if error.sqlstate == CLAIM_LOST:
                return False
            raise
        finally:
            await self.rollback()

    async def _finish_and_commit(self, finish: Finish) -> None:
        """Send the receipt and the COMMIT in one go.

        The server skips what follows a statement that failed, so a receipt that cannot be stored,
        or whose claim was lost, takes the COMMIT with it.
        """
        query, parameters = load("sql/postgres/finish_or_fail.sql"), finish_parameters(finish)
        try:
            async with self._connection.pipeline():
                # The handler may have given the connection another row factory.
                await self._connection.cursor(row_factory=tuple_row).execute(query, parameters)
                self._begun = None
                await self._block.__aexit__(None, None, None)
        except psycopg.errors.PipelineAborted as aborted:
            # What was skipped tells nothing; the statement before it has failed.
            first = aborted.__context__
            raise first if isinstance(first, psycopg.Error) else aborted from None
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            # psycopg leaves a block on a connection that was closed meanwhile without a word.
            raise StoreUnavailable("the connection was closed during the COMMIT")

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if self._held:
            self._held = self.lent = False
            if self._begun is None:
                await here_or_to_the_end(self._give_back)
            else:
                await to_the_end(self._undo)

    async def _undo(self) -> None:
        """Undo what is open and give the connection back, in a state that spoils nothing.

        The server rolls back by itself when a connection ends, so that is what is done if it does
        not answer, or if a cancellation has left a statement half way.
        """
        undo = self._begun
        deadline = monotonic() + self._operation_s
        try:
            if undo is not None and await self._is_quiet(deadline):
                with AnsweredBy(self._connection, deadline):
                    await self._block.__aexit__(psycopg.Rollback, psycopg.Rollback(undo), None)
        except (StoreUnavailable, psycopg.Error):
            await self._connection.close()
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            await self._connection.close()
        await self._pool.putconn(self._connection)

    async def _is_quiet(self, deadline: float) -> bool:
        """Wait until no statement of the handler is under way; none can begin any more.

        A task that the handler has left behind, or a result that it has not read to its end,
        holds the connection's lock. Then the link is cut: what waits in another task meets the
        end, and its transaction does too.
        """
        if await self._had_the_lock(seconds_left(deadline)):
            return True
        self._begun = None  # the server rolls it back, now that its link is cut
        cut(self._connection)
        await self._had_the_lock(CUT_S)
        return False

    async def _had_the_lock(self, timeout_s: float) -> bool:
        lock = self._connection.lock
        if is_free(lock):  # as it nearly always is
            return True
        with anyio.move_on_after(timeout_s) as scope:
            async with lock:
                pass
        return not scope.cancelled_caught
