"""How an asynchronous connection to Postgres is had, and how long its answers are waited for."""

from __future__ import annotations

import asyncio
from types import TracebackType
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


class AnsweredBy:
    """Turns "no answer by then" into StoreUnavailable; errors of the statement pass through.

    At the end of the time the socket is shut down, and psycopg meets an end of file. Cancelling
    it instead would make it ask the server to cancel, and wait for the answer: of a server that
    hangs, for ever.
    """

    __slots__ = ("_connection", "_deadline", "_timer")

    def __init__(self, connection: Connection, deadline: float) -> None:
        """Surround one or more statements on a connection; `deadline` is of time.monotonic."""
        self._connection, self._deadline = connection, deadline
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        """Begin to watch the time."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds_left(self._deadline), cut, self._connection)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Watch no longer. Raises StoreUnavailable."""
        if self._timer is not None:
            self._timer.cancel()
        if error is not None:
            with silence_is_unavailable(self._connection):
                raise error
