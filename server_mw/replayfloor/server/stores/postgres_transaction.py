"""A handler's blocking transaction in Postgres: arguments, round trip, decode.

When an answer is missing, StoreUnavailable says so; the errors of a statement itself are the
handler's and pass through.
"""

from __future__ import annotations

from time import monotonic
from typing import cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_connection import BoundedConnection, Pool, answered_by
from replayfloor.server.stores.postgres_link import (
    CLAIM_LOST,
    CUT_S,
    ENDED,
    NOT_QUIET,
    cut,
    require_open,
    seconds_left,
)
from replayfloor.server.stores.postgres_loan import BorrowedConnection
from replayfloor.server.stores.postgres_values import finish_parameters
from replayfloor.server.stores.protocols import Connection


class PostgresTransaction:
    """A handler's transaction on a connection of its own.

    It is a psycopg transaction block, inside which the handler's own commit() and rollback() are
    errors; the handler's `connection.transaction()` becomes a savepoint.
    """

    def __init__(self, pool: Pool, connection: BoundedConnection, operation_s: float) -> None:
        """Take the connection over; it goes back to the pool when the transaction ends."""
        self._pool, self._connection, self._operation_s = pool, connection, operation_s
        self._block = connection.transaction()
        self._begun: psycopg.Transaction | None = None
        self._view = BorrowedConnection(self)
        self._held = True
        self.lent = True

    def start(self, deadline: float) -> None:
        """Open the transaction. Raises StoreUnavailable."""
        try:
            with answered_by(self._connection, deadline):
                self._begun = self._block.__enter__()
        except BaseException:
            self.rollback()
            raise

    @property
    def connection(self) -> Connection:
        """The handler's view of the connection. Raises UsageError once the transaction ended."""
        self.lend()
        return cast("Connection", self._view)

    def lend(self) -> BoundedConnection:
        """Return the connection itself. Raises UsageError once the transaction has ended."""
        if not self.lent:
            raise UsageError(ENDED)
        return self._connection

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        self.lend()
        self.lent = False
        try:
            deadline = monotonic() + self._operation_s
            if not self._is_quiet(deadline):
                # Nothing was sent, so nothing was committed, whatever else is not known.
                raise StoreUnavailable(NOT_QUIET, performed=False)
            require_open(self._connection)
            with answered_by(self._connection, deadline):
                self._finish_and_commit(finish)
            return True
        except psycopg.Error as error:
            if error.sqlstate == CLAIM_LOST:
                return False
            raise
        finally:
            self.rollback()

    def _finish_and_commit(self, finish: Finish) -> None:
        """Send the receipt and the COMMIT in one go.

        The server skips what follows a statement that failed, so a receipt that cannot be stored,
        or whose claim was lost, takes the COMMIT with it.
        """
        query, parameters = load("sql/postgres/finish_or_fail.sql"), finish_parameters(finish)
        try:
            with self._connection.pipeline():
                # The handler may have given the connection another row factory.
                self._connection.cursor(row_factory=tuple_row).execute(query, parameters)
                self._begun = None
                self._block.__exit__(None, None, None)
        except psycopg.errors.PipelineAborted as aborted:
            # That the COMMIT was skipped. If the answers do not arrive together, psycopg raises
            # this in the place of what went wrong first.
            first = aborted.__context__
            raise first if isinstance(first, psycopg.Error) else aborted from None
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            # psycopg leaves a block on a connection that was closed meanwhile without a word.
            raise StoreUnavailable("the connection was closed during the COMMIT")

    def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if self._held:
            self._held = self.lent = False
            self._end()

    def _end(self) -> None:
        """Undo what is open and give the connection back, in a state that spoils nothing.

        The server rolls back by itself when a connection ends, so that is what is done if it does
        not answer, or if something has left a statement half way.
        """
        undo = self._begun
        deadline = monotonic() + self._operation_s
        try:
            if undo is not None and self._is_quiet(deadline):
                with answered_by(self._connection, deadline):
                    self._block.__exit__(psycopg.Rollback, psycopg.Rollback(undo), None)
        except (StoreUnavailable, psycopg.Error):
            self._connection.close()
        finally:
            if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                self._connection.close()
            self._pool.putconn(self._connection)

    def _is_quiet(self, deadline: float) -> bool:
        """Wait until no statement of the handler is under way; none can begin any more.

        A thread that the handler has left behind, or a result that it has not read to its end,
        holds the connection's lock. Then the link is cut: what waits in another thread meets the
        end, and its transaction does too.
        """
        lock = self._connection.lock
        if lock.acquire(timeout=seconds_left(deadline)):
            lock.release()
            return True
        self._begun = None  # the server rolls it back, now that its link is cut
        cut(self._connection)
        if lock.acquire(timeout=CUT_S):
            lock.release()
        return False
