"""The asynchronous half of `adapters.sqlalchemy`: receipts for an `AsyncEngine`, for ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from replayfloor.core.claims import Finish
from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.adapters.protocol import AsyncOnReceipts
from replayfloor.server.adapters.sqlalchemy_common import (
    ENDED,
    GuardedTransaction,
    check_driver,
    connecting,
    postgres_conninfo,
    unavailable,
)
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.shield import to_the_end
from replayfloor.server.stores import AsyncConnection as AnyConnection
from replayfloor.server.stores import AsyncReceipts, Row, open_async_receipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_link import cut

T = TypeVar("T")

USABLE = ("postgresql+psycopg", "postgresql+asyncpg")

GIVE_BACK_S = 5.0
"""How long a rollback may take before its connection is cut instead: nothing can cancel it, so a
server that hangs would keep the request for ever. As long as an operation of the receipts."""


class AsyncSQLAlchemyReceipts(AsyncOnReceipts):
    """Receipts in the database of an `AsyncEngine`; see SQLAlchemyReceipts.

    The engine's driver may be psycopg or asyncpg; SQLite is for blocking engines.
    """

    def __init__(self, engine: AsyncEngine, receipts: str | AsyncReceipts | None = None) -> None:
        """Connect nothing. Raises ConfigurationError."""
        if not isinstance(cast("object", engine), AsyncEngine):
            raise ConfigurationError(
                f"expected an AsyncEngine, got {type(engine).__name__}; for an Engine there is "
                "SQLAlchemyReceipts"
            )
        check_driver(engine.dialect, USABLE)
        chosen = _receipts(engine) if receipts is None else receipts
        super().__init__(open_async_receipts(chosen) if isinstance(chosen, str) else chosen)
        self._engine = engine

    async def begin(self, _id: ReceiptId | None = None, /) -> AsyncSQLAlchemyTransaction:
        """See `replayfloor.core.claims.Begin`."""
        with connecting():
            connection = await self._engine.connect()
        transaction = AsyncSQLAlchemyTransaction(connection, self._receipts.finish_in)
        await transaction.start()
        return transaction


class AsyncSQLAlchemyTransaction:
    """A handler's transaction on a connection of the engine."""

    def __init__(
        self, connection: AsyncConnection, finish_in: Callable[[object, Finish], Awaitable[bool]]
    ) -> None:
        """Take a connection over; it goes back to the engine when the transaction ends."""
        self._connection, self._finish_in = connection, finish_in
        if connection.sync_connection is None:
            raise UsageError("the connection has not been started")
        self._guarded = GuardedTransaction(connection.sync_connection)

    async def start(self) -> None:
        """Open it. Raises StoreUnavailable, ConfigurationError."""
        try:
            await self._run(self._guarded.begin)
        except BaseException:
            await self.rollback()
            raise

    @property
    def connection(self) -> AnyConnection:
        """The SQLAlchemy connection. Raises UsageError once the transaction has ended."""
        if self._guarded.ended:
            raise UsageError(ENDED)
        return cast("AnyConnection", self._connection)

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            self._guarded.check()
            with unavailable(performed=False):
                finished = await self._finish_in(self._connection, finish)
            if finished:
                await self._run(self._guarded.commit)
        finally:
            await self.rollback()
        return finished

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if not self._guarded.ended:
            self._guarded.ended = True
            await to_the_end(self._give_back)

    async def _give_back(self) -> None:
        # Cut, not cancelled: while it is thrown away, SQLAlchemy waits for a connection once more,
        # and would be cancelled there too, and lose it from the count of its pool.
        late = asyncio.get_running_loop().call_later(GIVE_BACK_S, self._cut)
        try:
            await self._run(self._guarded.end)
        finally:
            late.cancel()

    def _cut(self) -> None:
        """End the link: whoever waits at it meets the end, and the server rolls back."""
        driver: object = self._guarded.driver
        if isinstance(driver, psycopg.AsyncConnection):
            cut(cast("psycopg.AsyncConnection[Row]", driver))
        else:
            cast("AsyncpgConnection", driver).terminate()

    async def _run(self, work: Callable[[], T]) -> T:
        """Run blocking work of SQLAlchemy's in one of its greenlets."""
        return await self._connection.run_sync(lambda _connection: work())


class AsyncpgConnection(Protocol):
    """What is used of `asyncpg.Connection`, which has no types."""

    def terminate(self) -> None:
        """Close the link without a word."""
        ...


def async_session(claim: AsyncActiveClaim) -> AsyncSession:
    """Return an ORM session in the receipt's transaction; see `adapters.sqlalchemy.session`."""
    connection: object = claim.connection
    if not isinstance(connection, AsyncConnection):
        raise UsageError(
            "async_session(claim) needs AsyncSQLAlchemyReceipts as the middleware's receipts"
        )
    return AsyncSession(bind=connection, join_transaction_mode="create_savepoint")


def _receipts(engine: AsyncEngine) -> AsyncReceipts:
    return AsyncPostgresReceipts(postgres_conninfo(engine.dialect, engine.url))
