"""Asynchronous receipts in Postgres, with psycopg 3: arguments, one round trip, decode.

No decisions here. Any number of tasks of one event loop may use one store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import LiteralString

import anyio
import psycopg
from psycopg.pq.abc import PGresult
from psycopg_pool import AsyncConnectionPool

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.coalesce_async import Coalescer
from replayfloor.server.resources import load
from replayfloor.server.stores.policies import (
    Declaration,
    Declared,
    declaration_parameters,
    declared_of,
)
from replayfloor.server.stores.postgres_batch import (
    ALONE,
    ENTRIES_MAX,
    AloneType,
    joins_claims,
    joins_finishes,
)
from replayfloor.server.stores.postgres_connection_async import (
    AnsweredBy,
    Pool,
    check_open,
    get_connection,
)
from replayfloor.server.stores.postgres_direct import Written
from replayfloor.server.stores.postgres_finish_in import finish_in_async
from replayfloor.server.stores.postgres_lane_async import AsyncLane, ask_on_pool
from replayfloor.server.stores.postgres_options import (
    HANDLER_CONNECTIONS,
    LANES_FROM,
    OPERATION_S,
    POOL_CONNECTIONS,
    REOPEN_PAUSE_S,
    PostgresOptions,
)
from replayfloor.server.stores.postgres_schema import never_migrated, require, schema_state
from replayfloor.server.stores.postgres_together_async import claim_all, finish_all
from replayfloor.server.stores.postgres_transaction_async import AsyncPostgresTransaction
from replayfloor.server.stores.postgres_values import (
    abandon_parameters,
    claim_answer,
    claim_parameters,
    finish_parameters,
    renew_parameters,
)
from replayfloor.server.stores.protocols import Row


class AsyncPostgresReceipts:
    """Claims and receipts in two tables of the schema `replayfloor` (see `replayfloor migrate`).

    Args:
        url: `postgresql://…` or any libpq connection string.
        pool_connections: connections for the protocol, per process.
        handler_connections: connections for `atomic` handlers, per process.
        operation_s: seconds until an operation raises StoreUnavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_connections: int = POOL_CONNECTIONS,
        handler_connections: int = HANDLER_CONNECTIONS,
        operation_s: float = OPERATION_S,
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        self._options = PostgresOptions.check(
            url,
            pool_connections=pool_connections,
            handler_connections=handler_connections,
            operation_s=operation_s,
        )
        self._pools: tuple[Pool, Pool] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the pools
        self._claims_lane, self._finishes_lane = AsyncLane(), AsyncLane()
        self._opening = anyio.Lock()
        self._failed_at = -inf
        self._claims: Coalescer[Claim, ClaimAnswer | AloneType] = Coalescer(
            self._claim_all, entries_max=ENTRIES_MAX
        )
        self._finishes: Coalescer[Finish, bool | AloneType] = Coalescer(
            self._finish_all, entries_max=ENTRIES_MAX
        )

    async def open(self) -> None:
        """Open the pools and check that the database was migrated."""
        self._failed_at = -inf
        await self._opened(self._deadline())

    async def close(self) -> None:
        """Close both pools."""
        pools, self._pools = self._pools, None
        await self._leave_lanes()
        for pool in pools or ():
            await pool.close()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        if joins_claims(claim):
            answer = await self._claims.ask(claim.id, claim)
            if answer is not ALONE:
                return answer
        row = await self._call(load("sql/postgres/claim.sql"), claim_parameters(claim))
        return claim_answer(row)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        if joins_finishes(finish):
            finished = await self._finishes.ask(finish.id, finish)
            if finished is not ALONE:
                return finished
        (done,) = await self._call(load("sql/postgres/finish.sql"), finish_parameters(finish))
        return bool(done)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        (done,) = await self._call(load("sql/postgres/abandon.sql"), abandon_parameters(abandon))
        return bool(done)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        (done,) = await self._call(load("sql/postgres/renew.sql"), renew_parameters(renew))
        return bool(done)

    async def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.AsyncReceipts.declare`."""
        parameters = declaration_parameters(declaration)
        row = await self._call(load("sql/postgres/declare_policy.sql"), parameters)
        return declared_of(declaration, row)

    async def begin(self, _id: ReceiptId | None = None, /) -> AsyncPostgresTransaction:
        """See `replayfloor.core.claims.Begin`."""
        deadline = self._deadline()
        _protocol, handlers = await self._opened(deadline)
        connection = await get_connection(handlers, deadline)
        transaction = AsyncPostgresTransaction(handlers, connection, self._options.operation_s)
        await transaction.start(deadline)
        return transaction

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.AsyncReceipts.finish_in`.

        Takes a `psycopg.AsyncConnection`, or an asynchronous connection or session of SQLAlchemy.
        """
        return await finish_in_async(connection, finish)

    def _deadline(self) -> float:
        return monotonic() + self._options.operation_s

    async def _opened(self, deadline: float) -> tuple[Pool, Pool]:
        if self._pools is not None:
            if self._loop is not asyncio.get_running_loop():
                # The pools make no new connection here. They need those that they have made.
                await self._leave_lanes()
            return self._pools
        async with self._opening:
            if self._pools is None:
                # Requests queue here while one of them tries. Each in turn waiting for a
                # database that is away would make the last of them wait for minutes.
                if monotonic() - self._failed_at < REOPEN_PAUSE_S:
                    raise StoreUnavailable("Postgres was not there a moment ago", performed=False)
                self._pools = await self._open(deadline)
                self._loop = asyncio.get_running_loop()
            return self._pools

    async def _open(self, deadline: float) -> tuple[Pool, Pool]:
        protocol, handlers = (self._pool(size) for size in self._options.sizes)
        try:
            await protocol.open()
            await handlers.open()
            await self._check_schema(protocol, deadline)
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                self._failed_at = monotonic()
            with anyio.CancelScope(shield=True):
                await protocol.close()
                await handlers.close()
            raise
        return protocol, handlers

    def _pool(self, size: int) -> Pool:
        return AsyncConnectionPool(
            self._options.conninfo,
            connection_class=psycopg.AsyncConnection[Row],
            check=check_open,
            **self._options.pool(size),
        )

    async def _check_schema(self, protocol: Pool, deadline: float) -> None:
        try:
            (row,) = await self._rows_of(protocol, load("sql/postgres/state.sql"), None, deadline)
            state = schema_state(row)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            state = never_migrated()
        require(state, self._options.advice)

    # -- several at once ------------------------------------------------------------------------

    async def _claim_all(
        self, claims: Sequence[Claim]
    ) -> Sequence[ClaimAnswer | AloneType | Exception]:
        return await claim_all(partial(self._ask, self._claims_lane), claims)

    async def _finish_all(self, finishes: Sequence[Finish]) -> Sequence[bool | AloneType]:
        return await finish_all(partial(self._ask, self._finishes_lane), finishes)

    async def _ask(self, lane: AsyncLane, query: LiteralString, written: Written) -> PGresult:
        deadline = self._deadline()
        protocol, _handlers = await self._opened(deadline)
        is_kept = self._options.pool_connections >= LANES_FROM
        if is_kept and self._loop is asyncio.get_running_loop():
            return await lane.ask(protocol, query, written, deadline)
        return await ask_on_pool(protocol, query, written, deadline)

    async def _leave_lanes(self) -> None:
        await self._claims_lane.leave()
        await self._finishes_lane.leave()

    # -- round trips ----------------------------------------------------------------------------

    async def _call(self, query: LiteralString, parameters: Mapping[str, object]) -> Row:
        (row,) = await self._rows(query, parameters)
        return row

    async def _rows(self, query: LiteralString, parameters: Mapping[str, object]) -> Sequence[Row]:
        deadline = self._deadline()
        protocol, _handlers = await self._opened(deadline)
        return await self._rows_of(protocol, query, parameters, deadline)

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
