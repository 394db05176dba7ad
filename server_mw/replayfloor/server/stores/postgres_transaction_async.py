"""A handler's transaction in Postgres, and what every use of a connection shares.

Arguments, round trip, decode. When an answer is missing, StoreUnavailable says so; the errors of a
statement itself are the handler's and pass through.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import LiteralString, TypeAlias, cast
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.core.receipt import encode_receipt
from replayfloor.server.resources import load
from replayfloor.server.shield import to_the_end
from replayfloor.server.stores import AsyncConnection, Row
from replayfloor.server.stores.statements import refuse_transaction_control

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
        self._open = True

    async def start(self) -> None:
        """Open the transaction. Raises StoreUnavailable."""
        try:
            async with answered_within(self._connection, self._operation_s):
                self._transaction = await self._block.__aenter__()
        except BaseException:
            await self.rollback()
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
            finished = await self._finish(finish)
            if finished:
                self._transaction = None
                async with answered_within(self._connection, self._operation_s):
                    await self._block.__aexit__(None, None, None)
        finally:
            await self.rollback()
        return finished

    async def _finish(self, finish: Finish) -> bool:
        try:
            async with answered_within(self._connection, self._operation_s):
                query = load("sql/postgres/finish.sql")
                cursor = await self.lend().execute(query, finish_parameters(finish))
                return await cursor.fetchone() == (True,)
        except StoreUnavailable as error:
            # The COMMIT was not sent, so nothing was committed, whatever else is not known.
            error.performed = False
            raise

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if self._open:
            self._open = False
            await to_the_end(self._end)

    async def _end(self) -> None:
        """Undo what is open and give the connection back, in a state that spoils nothing.

        The server rolls back by itself when a connection ends, so that is what is done if it does
        not answer, or if a cancellation has left a statement half way.
        """
        undo, self._transaction = self._transaction, None
        try:
            if undo is not None:
                async with answered_within(self._connection, self._operation_s):
                    await self._block.__aexit__(psycopg.Rollback, psycopg.Rollback(undo), None)
        except (StoreUnavailable, psycopg.Error):
            await self._connection.close()
        finally:
            if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                await self._connection.close()
            await self._pool.putconn(self._connection)


class BorrowedConnection:
    """A psycopg connection for as long as the transaction lasts: `cursor`, `pipeline`, … are its.

    After that it belongs to somebody else: what a handler writes late (in a background task, say)
    would otherwise end up in the transaction of another request.
    """

    __slots__ = ("_transaction",)

    def __init__(self, transaction: PostgresTransaction) -> None:
        """Look at the connection of a transaction."""
        self._transaction = transaction

    async def execute(self, query: object, params: object = None) -> object:
        """Run a statement as psycopg's `execute` does.

        Raises UsageError for one that would end the transaction.
        """
        if isinstance(query, str | bytes):
            refuse_transaction_control(query if isinstance(query, str) else query.decode())
        return await self._transaction.lend().execute(
            cast("LiteralString", query), cast("Mapping[str, object] | None", params)
        )

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


async def check_open(connection: Connection) -> None:
    """Raise OperationalError if the server has closed an idle connection; no round trip.

    After a restart of the server every idle connection is dead, and each would cost one request.
    A dead one shows by an end of file that waits to be read.
    """
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as peek:
        peek.setblocking(False)
        try:
            # "E": an error to nobody's statement is the server's farewell.
            closed = peek.recv(1, socket.MSG_PEEK) in (b"", b"E")
        except BlockingIOError:
            closed = False
        except OSError:
            closed = True
    if closed:
        await connection.close()  # else the pool takes it for a good one, and offers it again
        raise psycopg.OperationalError("the server has closed the connection")


@asynccontextmanager
async def answered_within(connection: Connection, operation_s: float) -> AsyncGenerator[None]:
    """Turn "no answer" into StoreUnavailable; errors of the statement itself pass through.

    At the end of the time the socket is shut down, and psycopg meets an end of file. Cancelling
    it instead would make it ask the server to cancel, and wait for the answer: of a server that
    hangs, for ever.
    """
    timer = asyncio.get_running_loop().call_later(operation_s, _shut_down, connection)
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        # A failover has left the connection on what is a standby now.
        await connection.close()
        raise StoreUnavailable("Postgres is read-only", performed=False) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreUnavailable(f"Postgres did not answer: {error!r}") from error
    finally:
        timer.cancel()


def _shut_down(connection: Connection) -> None:
    # A duplicate, so that the descriptor stays psycopg's to close.
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def finish_parameters(finish: Finish) -> dict[str, object]:
    """Return the parameters of finish.sql."""
    return {
        "id": UUID(bytes=finish.id),
        "fence": UUID(bytes=finish.fence),
        "fingerprint": UUID(bytes=finish.receipt.fingerprint),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
    }
