"""A handler's transaction that ends with the removal of its event, in both colours.

It is the transaction of the receipts in all else. The event was acknowledged before, so its receipt
is there, and `commit` takes no more than the id and the fence of what it is given.
"""

from __future__ import annotations

from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores.inbox import fence_parameters
from replayfloor.server.stores.postgres_transaction import PostgresTransaction
from replayfloor.server.stores.postgres_transaction_async import AsyncPostgresTransaction

CLOSED = "the connection was closed during the COMMIT"

DONE_OR_FAIL = "sql/postgres/inbox_done_or_fail.sql"


class AsyncInboxTransaction(AsyncPostgresTransaction):
    """See AsyncPostgresTransaction."""

    async def _finish_and_commit(self, finish: Finish) -> None:
        """Remove the event, or fail; then commit. Nobody waits for it, so these are two steps."""
        # The handler may have given the connection another row factory.
        cursor = self._connection.cursor(row_factory=tuple_row)
        await cursor.execute(load(DONE_OR_FAIL), fence_parameters(finish))
        self._begun = None
        await self._block.__aexit__(None, None, None)
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            # psycopg leaves a block on a connection that was closed meanwhile without a word.
            raise StoreUnavailable(CLOSED)


class InboxTransaction(PostgresTransaction):
    """See PostgresTransaction."""

    def _finish_and_commit(self, finish: Finish) -> None:
        """Remove the event, or fail; then commit."""
        cursor = self._connection.cursor(row_factory=tuple_row)
        cursor.execute(load(DONE_OR_FAIL), fence_parameters(finish))
        self._begun = None
        self._block.__exit__(None, None, None)
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            raise StoreUnavailable(CLOSED)
