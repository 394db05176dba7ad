"""The asynchronous half of `adapters.sqlalchemy`: receipts for an `AsyncEngine`, for ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, AsyncTransaction

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server.adapters.sqlalchemy import (
    ENDED,
    Guard,
    check_open,
    receipts_url,
    unavailable,
)
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.shield import to_the_end
from replayfloor.server.stores import AsyncConnection as AnyConnection
from replayfloor.server.stores import AsyncReceipts, open_async_receipts


class AsyncSQLAlchemyReceipts:
    """Receipts in the database of an `AsyncEngine`; see SQLAlchemyReceipts.

    The engine's driver may be psycopg or asyncpg; SQLite is for blocking engines.
    """

    def __init__(self, engine: AsyncEngine, receipts: str | AsyncReceipts | None = None) -> None:
        """Connect nothing. Raises ConfigurationError."""
        if engine.url.get_backend_name() == "sqlite":
            raise ConfigurationError(
                "an asynchronous engine cannot write receipts to SQLite: use Postgres, or "
                'receipts="sqlite:///…" and claim.connection'
            )
        url = receipts_url(engine.url) if receipts is None else receipts
        self._engine = engine
        self._receipts = open_async_receipts(url) if isinstance(url, str) else url

    async def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        await self._receipts.open()

    async def close(self) -> None:
        """Give the protocol's connections back; the engine is the application's."""
        await self._receipts.close()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return await self._receipts.claim(claim)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return await self._receipts.finish(finish)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return await self._receipts.abandon(abandon)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return await self._receipts.renew(renew)

    async def begin(self) -> AsyncSQLAlchemyTransaction:
        """See `replayfloor.core.claims.Begin`."""
        transaction = AsyncSQLAlchemyTransaction(self._engine, self._receipts.finish_in)
        await transaction.start()
        return transaction

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
        return await self._receipts.finish_in(connection, finish)


class AsyncSQLAlchemyTransaction:
    """A handler's transaction on a connection of the engine."""

    def __init__(
        self, engine: AsyncEngine, finish_in: Callable[[object, Finish], Awaitable[bool]]
    ) -> None:
        """Connect nothing yet."""
        self._connection = engine.connect()
        self._finish_in = finish_in
        self._guard: Guard | None = None
        self._root: AsyncTransaction | None = None
        self._ended = False

    async def start(self) -> None:
        """Open it. Raises StoreUnavailable."""
        try:
            with unavailable(performed=False):
                await self._connection.start()
                if self._connection.sync_connection is not None:
                    self._guard = Guard(self._connection.sync_connection)
                self._root = await self._connection.begin()
        except BaseException:
            await self.rollback()
            raise

    @property
    def connection(self) -> AnyConnection:
        """The SQLAlchemy connection. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError(ENDED)
        return cast("AnyConnection", self._connection)

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            if self._root is None or self._guard is None:
                raise UsageError(ENDED)
            check_open(active=self._root.is_active)
            with unavailable(performed=False):
                finished = await self._finish_in(self._connection, finish)
            if finished:
                with self._guard.ours(), unavailable(performed=None):
                    await self._root.commit()
        finally:
            await self.rollback()
        return finished

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if not self._ended:
            self._ended = True
            await to_the_end(self._give_back)

    async def _give_back(self) -> None:
        try:
            await self._connection.close()
        except SQLAlchemyError:
            await self._connection.invalidate()


def async_session(claim: AsyncActiveClaim) -> AsyncSession:
    """Return an ORM session in the receipt's transaction; see `adapters.sqlalchemy.session`."""
    connection: object = claim.connection
    if not isinstance(connection, AsyncConnection):
        raise UsageError(
            "async_session(claim) needs AsyncSQLAlchemyReceipts as the middleware's receipts"
        )
    return AsyncSession(bind=connection, join_transaction_mode="create_savepoint")
