"""Receipts in Postgres, with psycopg 3: arguments, one round trip, decode. No decisions here.

The protocol runs on autocommit connections of one pool, and each operation is one function call
and one commit. The handler's transactions take theirs from a second pool: handlers that hold every
connection could otherwise keep the finishes, which would free them, from getting one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import LiteralString, TypeAlias, cast
from uuid import UUID

import anyio
import psycopg
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from replayfloor.core.claims import (
    Abandon,
    Claim,
    ClaimAnswer,
    Claimed,
    Finish,
    Finished,
    InFlight,
    Orphaned,
)
from replayfloor.core.errors import ConfigurationError, SchemaMissing, StoreUnavailable, UsageError
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load, migrations
from replayfloor.server.stores import AsyncConnection, Row

POOL_CONNECTIONS = 10
"""Connections for the protocol. An operation holds one for a round trip, so ten carry thousands
of operations a second; Postgres allows 100 unless told otherwise, shared by all workers."""

HANDLER_CONNECTIONS = 10
"""Connections for handlers' transactions: how many `atomic` handlers run at a time per process."""

OPERATION_S = 5.0
"""How long one operation may take before the store counts as unavailable, waiting for a connection
included: far above a slow commit, below the patience of common HTTP clients (10 s and more)."""

RECONNECT_S = 2.0
"""How long the pool itself keeps trying to connect before it leaves it to the next request. Its
pauses double; after a long outage a larger value would go on refusing when Postgres is back."""

Connection: TypeAlias = psycopg.AsyncConnection[Row]
Pool: TypeAlias = AsyncConnectionPool[Connection]


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
        if pool_connections < 1 or handler_connections < 1 or operation_s <= 0:
            raise ConfigurationError("pool sizes and operation_s must be positive")
        try:
            self._conninfo = make_conninfo(url, application_name="replayfloor")
        except psycopg.Error as error:
            raise ConfigurationError(f"not a Postgres connection string: {error}") from error
        self._sizes = (pool_connections, handler_connections)
        self._operation_s = operation_s
        self._pools: tuple[Pool, Pool] | None = None

    async def open(self) -> None:
        """Open the pools and check that the database was migrated."""
        if self._pools is not None:
            return
        protocol = self._pool(self._sizes[0], autocommit=True)
        handlers = self._pool(self._sizes[1], autocommit=False)
        await protocol.open()
        await handlers.open()
        self._pools = (protocol, handlers)
        try:
            await self._check_schema()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    def _pool(self, size: int, *, autocommit: bool) -> Pool:
        return AsyncConnectionPool(
            self._conninfo,
            connection_class=psycopg.AsyncConnection[Row],
            # No prepared statements: behind PgBouncer in transaction mode the next transaction
            # may meet another server connection. The functions' own plans are cached anyway.
            kwargs={"autocommit": autocommit, "prepare_threshold": None},
            min_size=0,
            max_size=size,
            timeout=self._operation_s,
            reconnect_timeout=RECONNECT_S,
            open=False,
        )

    async def close(self) -> None:
        """Close both pools."""
        pools, self._pools = self._pools, None
        for pool in pools or ():
            await pool.close()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        parameters = {
            "id": UUID(bytes=claim.id),
            "fingerprint": UUID(bytes=claim.fingerprint),
            "fence": UUID(bytes=claim.fence),
            "lease_ms": claim.lease_ms,
            "takeover": claim.takeover,
        }
        row = await self._call(load("sql/postgres/claim.sql"), parameters)
        return _claim_answer(*cast("tuple[str, UUID | None, int, bytes | None]", row))

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        (done,) = await self._call(load("sql/postgres/finish.sql"), _finish_parameters(finish))
        return bool(done)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        parameters = {"id": UUID(bytes=abandon.id), "fence": UUID(bytes=abandon.fence)}
        (done,) = await self._call(load("sql/postgres/abandon.sql"), parameters)
        return bool(done)

    async def begin(self) -> PostgresTransaction:
        """See `replayfloor.core.claims.Begin`."""
        _protocol, handlers = await self._opened()
        connection = await _get(handlers)
        transaction = PostgresTransaction(handlers, connection, self._operation_s)
        await transaction.start()
        return transaction

    async def _opened(self) -> tuple[Pool, Pool]:
        if self._pools is None:
            await self.open()
        if self._pools is None:
            raise StoreUnavailable("the store was closed", performed=False)
        return self._pools

    async def _call(self, query: LiteralString, parameters: Mapping[str, object]) -> Row:
        protocol, _handlers = await self._opened()
        return await self._one_row(protocol, query, parameters)

    async def _one_row(
        self, pool: Pool, query: LiteralString, parameters: Mapping[str, object] | None
    ) -> Row:
        connection = await _get(pool)
        try:
            async with _unavailable(self._operation_s):
                cursor = await connection.execute(query, parameters)
                row = await cursor.fetchone()
        finally:
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)
                if connection.closed:
                    # Its siblings are as dead, usually: find out now, not one request each.
                    await pool.check()
        assert row is not None  # each statement returns exactly one row
        return row

    async def _check_schema(self) -> None:
        protocol, _handlers = await self._opened()
        advice = "run: replayfloor migrate " + redacted(self._conninfo)
        try:
            row = await self._one_row(protocol, load("sql/postgres/state.sql"), None)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise SchemaMissing(f"the database has no replayfloor schema; {advice}") from error
        applied, ahead = cast("tuple[list[str], object]", row)
        if missing := set(migrations()) - set(applied):
            raise SchemaMissing(f"not applied yet: {', '.join(sorted(missing))}; {advice}")
        if ahead is None:
            raise SchemaMissing(f"receipts have no partition; {advice}")


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
            async with _unavailable(self._operation_s):
                self._transaction = await self._block.__aenter__()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._give_back()
            raise

    @property
    def connection(self) -> AsyncConnection:
        """The psycopg connection. Raises UsageError once the transaction has ended."""
        if not self._open:
            raise UsageError("the claim's transaction has ended; nothing can be written any more")
        return cast("AsyncConnection", self._connection)

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            async with _unavailable(self._operation_s):
                query = load("sql/postgres/finish.sql")
                cursor = await self._connection.execute(query, _finish_parameters(finish))
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


async def _get(pool: Pool) -> Connection:
    try:
        return await pool.getconn()
    except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error


@asynccontextmanager
async def _unavailable(operation_s: float) -> AsyncIterator[None]:
    """Turn "no answer" into StoreUnavailable; errors of the statement itself pass through."""
    try:
        with anyio.fail_after(operation_s):
            yield
    except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
        raise StoreUnavailable(f"Postgres did not answer: {error!r}") from error


def _finish_parameters(finish: Finish) -> dict[str, object]:
    return {
        "id": UUID(bytes=finish.id),
        "fence": UUID(bytes=finish.fence),
        "fingerprint": UUID(bytes=finish.receipt.fingerprint),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
    }


def _claim_answer(
    state: str, fingerprint: UUID | None, age_ms: int, response: bytes | None
) -> ClaimAnswer:
    if state in ("claimed", "taken_over"):
        return Claimed(taken_over=state == "taken_over")
    if fingerprint is None:
        raise SchemaMissing(f"claim_v1 answered {state!r} without a fingerprint")
    if state == "in_flight":
        return InFlight(Fingerprint(fingerprint.bytes), age_ms)
    if state == "orphaned":
        return Orphaned(Fingerprint(fingerprint.bytes), -age_ms)
    return Finished(decode_receipt(fingerprint.bytes, response or b""))


def redacted(conninfo: str) -> str:
    """Return the connection string without its password, quoted for a shell."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    parts.pop("password", None)
    parts.pop("application_name", None)
    return f'"{make_conninfo("", **parts)}"'
