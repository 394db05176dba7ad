"""The asynchronous inbox in Postgres, with psycopg 3: arguments, one round trip, decode.

No decisions here. Belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import LiteralString

import anyio
import psycopg
from psycopg_pool import AsyncConnectionPool

from replayfloor.core.claims import Fence, Finish, Renew
from replayfloor.server.resources import load
from replayfloor.server.stores.inbox import (
    bury_parameters,
    fence_parameters,
    later_parameters,
    take_parameters,
    taken_of,
)
from replayfloor.server.stores.inbox_done_in import done_in_async
from replayfloor.server.stores.inbox_options import POOL_SPARE, inbox_options
from replayfloor.server.stores.inbox_transaction import AsyncInboxTransaction
from replayfloor.server.stores.postgres_connection_async import (
    AnsweredBy,
    Pool,
    check_open,
    get_connection,
)
from replayfloor.server.stores.postgres_options import OPERATION_S
from replayfloor.server.stores.postgres_schema import never_migrated, require, schema_state
from replayfloor.server.stores.postgres_values import renew_parameters
from replayfloor.server.stores.protocols import Row
from replayfloor.server.webhooks.inbox.effects import Bury, Done, Later
from replayfloor.server.webhooks.inbox.values import Taken


class AsyncPostgresInbox:
    """See `replayfloor.server.stores.inbox.AsyncInbox`.

    Args:
        url: `postgresql://…` or any libpq connection string.
        namespace: whose events are taken.
        workers: how many events are applied at a time; each may hold a connection.
        operation_s: seconds until an operation raises StoreUnavailable.
    """

    def __init__(
        self, url: str, *, namespace: str, workers: int, operation_s: float = OPERATION_S
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        self._options = inbox_options(url, workers=workers, operation_s=operation_s)
        self._namespace = namespace
        self._opening = anyio.Lock()
        self._pool: Pool | None = None

    async def open(self) -> None:
        """See AsyncInbox."""
        await self._opened(self._deadline())

    async def close(self) -> None:
        """See AsyncInbox."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def take(self, fence: Fence, lease_ms: int, *, again: bool = False) -> Taken | None:
        """See AsyncInbox."""
        parameters = take_parameters(self._namespace, fence, lease_ms, again=again)
        rows = await self._rows(load("sql/postgres/inbox_take.sql"), parameters)
        return taken_of(rows[0], self._namespace, fence) if rows else None

    async def renew(self, renew: Renew) -> bool:
        """See AsyncInbox."""
        return await self._says(load("sql/postgres/inbox_renew.sql"), renew_parameters(renew))

    async def done(self, done: Done) -> bool:
        """See AsyncInbox."""
        return await self._says(load("sql/postgres/inbox_done.sql"), fence_parameters(done))

    async def later(self, later: Later) -> bool:
        """See AsyncInbox."""
        return await self._says(load("sql/postgres/inbox_later.sql"), later_parameters(later))

    async def bury(self, bury: Bury) -> bool:
        """See AsyncInbox."""
        return await self._says(load("sql/postgres/inbox_bury.sql"), bury_parameters(bury))

    async def begin(self) -> AsyncInboxTransaction:
        """See AsyncInbox."""
        deadline = self._deadline()
        pool = await self._opened(deadline)
        connection = await get_connection(pool, deadline)
        transaction = AsyncInboxTransaction(pool, connection, self._options.operation_s)
        await transaction.start(deadline)
        return transaction

    async def done_in(self, connection: object, finish: Finish) -> bool:
        """See AsyncInbox."""
        return await done_in_async(connection, finish)

    # -- round trips ------------------------------------------------------------------------------

    def _deadline(self) -> float:
        return monotonic() + self._options.operation_s

    async def _opened(self, deadline: float) -> Pool:
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                self._pool = await self._open(deadline)
            return self._pool

    async def _open(self, deadline: float) -> Pool:
        pool: Pool = AsyncConnectionPool(
            self._options.conninfo,
            connection_class=psycopg.AsyncConnection[Row],
            check=check_open,
            **self._options.pool(self._options.handler_connections + POOL_SPARE),
        )
        try:
            await pool.open()
            await self._check_schema(pool, deadline)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await pool.close()
            raise
        return pool

    async def _check_schema(self, pool: Pool, deadline: float) -> None:
        try:
            (row,) = await self._rows_of(pool, load("sql/postgres/state.sql"), None, deadline)
            state = schema_state(row)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            state = never_migrated()
        require(state, self._options.advice)

    async def _says(self, query: LiteralString, parameters: Mapping[str, object]) -> bool:
        ((said,),) = await self._rows(query, parameters)
        return bool(said)

    async def _rows(self, query: LiteralString, parameters: Mapping[str, object]) -> Sequence[Row]:
        deadline = self._deadline()
        return await self._rows_of(await self._opened(deadline), query, parameters, deadline)

    async def _rows_of(
        self,
        pool: Pool,
        query: LiteralString,
        parameters: Mapping[str, object] | None,
        deadline: float,
    ) -> Sequence[Row]:
        connection = await get_connection(pool, deadline)
        try:
            with AnsweredBy(connection, deadline):
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchall()
        finally:
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)
