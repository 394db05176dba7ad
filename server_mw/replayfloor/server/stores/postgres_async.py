"""Receipts in Postgres, with psycopg 3: arguments, one round trip, decode. No decisions here.

The protocol runs on connections of one pool, and each operation is one function call and one
commit. The handler's transactions take theirs from a second pool: handlers that hold every
connection could otherwise keep the finishes, which would free them, from getting one. All are in
autocommit mode, so that a transaction is what was begun as one and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from math import ceil, inf
from time import monotonic
from typing import LiteralString, cast
from uuid import UUID

import anyio
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from replayfloor.core.claims import (
    Abandon,
    Claim,
    ClaimAnswer,
    Claimed,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Renew,
)
from replayfloor.core.errors import ConfigurationError, SchemaMissing, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt
from replayfloor.server.resources import load, migrations
from replayfloor.server.stores import Row
from replayfloor.server.stores.migrate import PARTITION_WIDTH
from replayfloor.server.stores.postgres_transaction_async import (
    Pool,
    PostgresTransaction,
    answered_within,
    check_open,
    finish_parameters,
    get_connection,
)

POOL_CONNECTIONS = 10
"""Connections for the protocol. An operation holds one for a round trip, so ten carry thousands
of operations a second; Postgres allows 100 unless told otherwise, shared by all workers."""

HANDLER_CONNECTIONS = 10
"""Connections for handlers' transactions: how many `atomic` handlers run at a time per process."""

OPERATION_S = 5.0
"""How long one operation may take before the store counts as unavailable, waiting for a connection
included: far above a slow commit, below the patience of common HTTP clients (10 s and more)."""

CONNECT_S_MIN = 2
"""libpq takes no shorter time for connecting."""

PARTITION_DAYS_LOW = 28
"""Below this the start-up log asks for a migration: four weeks are time to plan one."""

RECONNECT_S = 2.0
"""How long the pool itself keeps trying to connect before it leaves it to the next request. Its
pauses double; after a long outage a larger value would go on refusing when Postgres is back."""

REOPEN_PAUSE_S = 1.0
"""After a failed opening, requests are refused at once for this long."""

log = logging.getLogger("replayfloor.server")


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
        except psycopg.Error:
            # Without the cause: libpq repeats the text, which may hold a password.
            raise ConfigurationError(
                "not a valid Postgres URL or connection string: check its parts, and that special "
                "characters in a user name or password are percent-encoded"
            ) from None
        self._sizes = (pool_connections, handler_connections)
        self._operation_s = operation_s
        self._pools: tuple[Pool, Pool] | None = None
        self._opening = anyio.Lock()
        self._failed_at = -inf

    async def open(self) -> None:
        """Open the pools and check that the database was migrated."""
        async with self._opening:
            if self._pools is None:
                self._pools = await self._open()

    async def _open(self) -> tuple[Pool, Pool]:
        protocol, handlers = (self._pool(size) for size in self._sizes)
        try:
            await protocol.open()
            await handlers.open()
            await self._check_schema(protocol)
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
            self._conninfo,
            connection_class=psycopg.AsyncConnection[Row],
            # No prepared statements: behind PgBouncer in transaction mode the next transaction
            # may meet another server connection. The functions' own plans are cached anyway.
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": max(CONNECT_S_MIN, ceil(self._operation_s)),
            },
            check=check_open,
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
        (done,) = await self._call(load("sql/postgres/finish.sql"), finish_parameters(finish))
        return bool(done)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        parameters = {"id": UUID(bytes=abandon.id), "fence": UUID(bytes=abandon.fence)}
        (done,) = await self._call(load("sql/postgres/abandon.sql"), parameters)
        return bool(done)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        parameters = {
            "id": UUID(bytes=renew.id),
            "fence": UUID(bytes=renew.fence),
            "lease_ms": renew.lease_ms,
        }
        (done,) = await self._call(load("sql/postgres/renew.sql"), parameters)
        return bool(done)

    async def begin(self) -> PostgresTransaction:
        """See `replayfloor.core.claims.Begin`."""
        _protocol, handlers = await self._opened()
        connection = await get_connection(handlers)
        transaction = PostgresTransaction(handlers, connection, self._operation_s)
        await transaction.start()
        return transaction

    async def _opened(self) -> tuple[Pool, Pool]:
        if self._pools is not None:
            return self._pools
        async with self._opening:
            if self._pools is None:
                # Requests queue here while one of them tries. Each in turn waiting for a
                # database that is away would make the last of them wait for minutes.
                if monotonic() - self._failed_at < REOPEN_PAUSE_S:
                    raise StoreUnavailable("Postgres was not there a moment ago", performed=False)
                self._pools = await self._open()
            return self._pools

    async def _call(self, query: LiteralString, parameters: Mapping[str, object]) -> Row:
        protocol, _handlers = await self._opened()
        return await self._one_row(protocol, query, parameters)

    async def _one_row(
        self, pool: Pool, query: LiteralString, parameters: Mapping[str, object] | None
    ) -> Row:
        connection = await get_connection(pool)
        try:
            async with answered_within(connection, self._operation_s):
                cursor = await connection.execute(query, parameters)
                row = await cursor.fetchone()
        finally:
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)
        assert row is not None  # each statement returns exactly one row
        return row

    async def _check_schema(self, protocol: Pool) -> None:
        advice = "run: replayfloor migrate " + redacted(self._conninfo)
        try:
            row = await self._one_row(protocol, load("sql/postgres/state.sql"), None)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise SchemaMissing(f"the database has no replayfloor schema; {advice}") from error
        applied, ahead, unique = cast("tuple[list[str], timedelta | None, bool]", row)
        if missing := set(migrations()) - set(applied):
            raise SchemaMissing(f"not applied yet: {', '.join(sorted(missing))}; {advice}")
        if not unique:
            raise SchemaMissing(
                "the unique index replayfloor.claims_id is gone, and nothing else refuses a second "
                "claim; restore it: create unique index claims_id on replayfloor.claims (id)"
            )
        days_left = -1 if ahead is None else (ahead + PARTITION_WIDTH) // timedelta(days=1)
        if days_left < 0:
            raise SchemaMissing(f"receipts have no partition for today; {advice}")
        if days_left < PARTITION_DAYS_LOW:
            log.warning("partitions of receipts end in %d days; %s", days_left, advice)


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
    parts = conninfo_to_dict(conninfo)
    shown = {
        name: value
        for name, value in parts.items()
        if "password" not in name and name != "application_name"
    }
    return f'"{make_conninfo("", **shown)}"'
