"""How an asynchronous connection to Postgres is had, and how long its answers are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores.postgres_link import (
    cut,
    is_cut,
    seconds_left,
    silence_is_unavailable,
)
from replayfloor.server.stores.protocols import Row

Connection: TypeAlias = psycopg.AsyncConnection[Row]
Pool: TypeAlias = AsyncConnectionPool[Connection]


async def get_connection(pool: Pool, deadline: float) -> Connection:
    """Take a connection out of a pool. Raises StoreUnavailable."""
    try:
        return await pool.getconn(seconds_left(deadline))
    except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error


async def check_open(connection: Connection) -> None:
    """Raise OperationalError if the server has closed an idle connection; no round trip."""
    if is_cut(connection):
        await connection.close()  # else the pool takes it for a good one, and offers it again
        raise psycopg.OperationalError("the server has closed the connection")


@asynccontextmanager
async def answered_by(connection: Connection, deadline: float) -> AsyncGenerator[None]:
    """Turn "no answer by then" into StoreUnavailable; errors of the statement pass through.

    At the end of the time the socket is shut down, and psycopg meets an end of file. Cancelling
    it instead would make it ask the server to cancel, and wait for the answer: of a server that
    hangs, for ever.
    """
    timer = asyncio.get_running_loop().call_later(seconds_left(deadline), cut, connection)
    try:
        with silence_is_unavailable(connection):
            yield
    finally:
        timer.cancel()
