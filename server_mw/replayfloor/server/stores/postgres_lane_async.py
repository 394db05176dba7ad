"""A connection of the protocol's pool that is kept for batches which follow one another.

To take one out of the pool for each of them, look at it, and give it back takes longer than the
batch itself. What becomes of one that has failed is left to the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, LiteralString

import anyio
from psycopg.pq.abc import PGresult

from replayfloor.server.stores.postgres_connection_async import Connection, Pool, get_connection
from replayfloor.server.stores.postgres_direct import Written
from replayfloor.server.stores.postgres_wire_async import Wire

KEPT_S: Final = 60.0
"""How long a connection is kept, so that the pool can replace old ones and meet a new primary."""


class AsyncLane:
    """At most one connection, for one batch at a time: a coalescer's."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Have none. `clock` measures how long one is kept, in seconds."""
        self._clock = clock
        self._wire: Wire | None = None
        self._pool: Pool | None = None
        self._until = 0.0
        self._busy = False
        self._leaving = False

    async def ask(
        self, pool: Pool, query: LiteralString, written: Written, deadline: float
    ) -> PGresult:
        """Return the rows of a statement. Raises StoreUnavailable, and what the server refuses."""
        self._busy = True
        try:
            wire = self._wire
            if wire is None or not self._is_usable(wire, pool):
                wire = await self._renewed(pool, deadline)
            return await wire.ask(query, written, deadline)
        except BaseException:
            await self._give_back()
            raise
        finally:
            self._busy = False
            if self._leaving:
                await self._give_back()

    async def leave(self) -> None:
        """Give the connection back, after a batch that is under way; use may follow."""
        if self._busy:
            self._leaving = True
        elif self._wire is not None:
            await self._give_back()

    def _is_usable(self, wire: Wire, pool: Pool) -> bool:
        return self._pool is pool and self._clock() < self._until and wire.is_quiet()

    async def _renewed(self, pool: Pool, deadline: float) -> Wire:
        await self._give_back()
        wire = await wire_of(pool, deadline)
        self._wire, self._pool, self._until = wire, pool, self._clock() + KEPT_S
        return wire

    async def _give_back(self) -> None:
        wire, pool = self._wire, self._pool
        self._wire = self._pool = None
        self._leaving = False
        if wire is not None and pool is not None:
            await give_back(pool, wire)


async def ask_on_pool(
    pool: Pool, query: LiteralString, written: Written, deadline: float
) -> PGresult:
    """Do as a lane does, with a connection that goes back to the pool at once."""
    wire = await wire_of(pool, deadline)
    try:
        return await wire.ask(query, written, deadline)
    finally:
        await give_back(pool, wire)


async def wire_of(pool: Pool, deadline: float) -> Wire:
    """Take a connection out of a pool. Raises StoreUnavailable."""
    connection = await get_connection(pool, deadline)
    try:
        return Wire(connection)
    except BaseException:
        await _put(pool, connection)
        raise


async def give_back(pool: Pool, wire: Wire) -> None:
    """Give a connection back to its pool, which closes it if an answer is still under way."""
    wire.leave()
    await _put(pool, wire.connection)


async def _put(pool: Pool, connection: Connection) -> None:
    with anyio.CancelScope(shield=True):
        await pool.putconn(connection)
