"""A handler's transaction in Postgres, and what every use of a connection shares.

Arguments, round trip, decode. When an answer is missing, StoreUnavailable says so; the errors of a
statement itself are the handler's and pass through.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias, cast
from uuid import UUID

import anyio
import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.core.receipt import encode_receipt
from replayfloor.server.resources import load
from replayfloor.server.stores import AsyncConnection, Row

Connection: TypeAlias = psycopg.AsyncConnection[Row]
Pool: TypeAlias = AsyncConnectionPool[Connection]


class PostgresTransaction:
    """A handler's transaction on a connection of its own.

    It is a psycopg transaction block, inside which the handler's own commit() and rollback() are
    errors; the handler's `connection.transaction()` becomes a savepoint.
    """

    def __init__(self, pool: Pool, connection: Connection, operation_s: float) -> None:
        """Take the connection over; it goes back to the pool when the transaction ends."""
        self._pool, self._connection, self._operation_s = pool, connection, operation_s
        self._block = connection.transaction()
        self._transaction: psycopg.AsyncTransaction | None = None
        self._open = False

    async def start(self) -> None:
        """Open the transaction. Raises StoreUnavailable."""
        self._open = True
        try:
            async with answered_within(self._operation_s):
                self._transaction = await self._block.__aenter__()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._give_back()
            raise

    @property
    def connection(self) -> AsyncConnection:
        """The handler's view of the connection. Raises UsageError once the transaction ended."""
        self.lend()
        return cast("AsyncConnection", BorrowedConnection(self))

    def lend(self) -> Connection:
        """Return the connection itself. Raises UsageError once the transaction has ended."""
        if not self._open:
            raise UsageError("the claim's transaction has ended; nothing can be written any more")
        return self._connection

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            async with answered_within(self._operation_s):
                query = load("sql/postgres/finish.sql")
                cursor = await self._connection.execute(query, finish_parameters(finish))
                row = await cursor.fetchone()
                if row != (True,):
                    await self.rollback()
                    return False
                await self._block.__aexit__(None, None, None)
        except BaseException:
            await self.rollback()
            raise
        await self._give_back()
        return True

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`."""
        if not self._open:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._operation_s, shield=True):
            undo = psycopg.Rollback(self._transaction)
            try:
                await self._block.__aexit__(psycopg.Rollback, undo, None)
            except psycopg.Error:
                # The server rolls back a transaction whose connection ends.
                await self._connection.close()
        with anyio.CancelScope(shield=True):
            await self._give_back()

    async def _give_back(self) -> None:
        if self._open:
            self._open = False
            await self._pool.putconn(self._connection)


class BorrowedConnection:
    """A psycopg connection for as long as the transaction lasts: `execute`, `cursor`, … are its.

    By then it belongs to somebody else: what a handler writes late (in a background task, say)
    would otherwise end up in the transaction of another request.
    """

    __slots__ = ("_transaction",)

    def __init__(self, transaction: PostgresTransaction) -> None:
        """Look at the connection of a transaction."""
        self._transaction = transaction

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the connection. Raises UsageError once the transaction ended."""
        value: object = getattr(self._transaction.lend(), name)
        return value


async def get_connection(pool: Pool) -> Connection:
    """Take a connection out of a pool. Raises StoreUnavailable."""
    try:
        return await pool.getconn()
    except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error


@asynccontextmanager
async def answered_within(operation_s: float) -> AsyncGenerator[None]:
    """Turn "no answer" into StoreUnavailable; errors of the statement itself pass through."""
    try:
        with anyio.fail_after(operation_s):
            yield
    except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
        raise StoreUnavailable(f"Postgres did not answer: {error!r}") from error


def finish_parameters(finish: Finish) -> dict[str, object]:
    """Return the parameters of finish.sql."""
    return {
        "id": UUID(bytes=finish.id),
        "fence": UUID(bytes=finish.fence),
        "fingerprint": UUID(bytes=finish.receipt.fingerprint),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
    }
