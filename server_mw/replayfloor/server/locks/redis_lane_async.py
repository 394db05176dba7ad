"""One connection to Redis that is kept for the batches of a lock, which follow one another.

Taking a connection out of redis-py's pool and giving it back, for every batch, costs more than the
batch itself. Connecting, reading, and what is done about a lost connection stay redis-py's.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# redis-py's own annotations leave most of these open.
_Connection: TypeAlias = Any

_LOST = (RedisConnectionError, RedisTimeoutError, OSError)


class AsyncLane:
    """Sends commands, one after the other. Raises what redis-py raises."""

    def __init__(self, redis: Redis) -> None:
        """Connect nothing."""
        self._pool = redis.connection_pool
        self._connection: AbstractConnection | None = None

    async def call(self, command: bytes) -> object:
        """Return the answer to a command that is packed already.

        Written in the same step of the event loop, if the connection is there. A lost connection
        is made anew and the command sent again, as often as the client's own rule has it.
        """
        connection = await self._ready()

        async def once() -> object:
            await connection.send_packed_command(command)
            return await connection.read_response()

        async def lost(_error: Exception) -> None:
            await connection.disconnect()

        return await connection.retry.call_with_retry(once, lost)

    async def disconnect(self) -> None:
        """End the connection; the next command makes it anew."""
        if self._connection is not None:
            await cast("_Connection", self._connection).disconnect()

    async def close(self) -> None:
        """Give the connection back; use may follow."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    async def _ready(self) -> _Connection:
        """Return a connection that has no answer of an earlier command before it, and no end."""
        if self._connection is None:
            self._connection = await cast("_Connection", self._pool).get_connection()
            return self._connection
        connection: _Connection = self._connection
        try:
            stale = await connection.can_read()
        except _LOST:
            stale = True
        if stale:
            await connection.disconnect()
        return connection
