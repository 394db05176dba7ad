"""The floor of `effects="atomic"`: the handler's rows and the receipt in one commit.

Two round trips beside those of lock and claim: BEGIN goes with the handler's first statement, the
receipt goes with the COMMIT.
"""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg
from benchmarks.floor.stores import FINISH, Done, connection_to, finish_arguments

from replayfloor.server.stores.postgres_options import HANDLER_CONNECTIONS

CONNECTIONS: Final = HANDLER_CONNECTIONS
"""As many as ours has for handlers."""


class Handlers:
    """Connections for handlers."""

    def __init__(self, url: str) -> None:
        """Connect nothing."""
        self._url = url
        self._free: asyncio.LifoQueue[psycopg.AsyncConnection[tuple[object, ...]]] = (
            asyncio.LifoQueue()
        )

    async def open(self) -> None:
        """Connect."""
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await connection_to(self._url))

    async def close(self) -> None:
        """Disconnect."""
        while not self._free.empty():
            await self._free.get_nowait().close()

    async def begin(self) -> Transaction:
        """Wait for a connection; nothing is sent yet."""
        return Transaction(await self._free.get(), self._free)


class Transaction:
    """One handler's transaction, as the handler sees its connection."""

    def __init__(
        self,
        connection: psycopg.AsyncConnection[tuple[object, ...]],
        free: asyncio.LifoQueue[psycopg.AsyncConnection[tuple[object, ...]]],
    ) -> None:
        """Have a connection until the commit."""
        self._connection, self._free = connection, free

    async def execute(self, query: bytes, arguments: tuple[object, ...]) -> None:
        """Begin, and run the handler's only statement, in one round trip."""
        async with self._connection.pipeline():
            await self._connection.execute(b"begin", prepare=True)
            await self._connection.execute(query, arguments, prepare=True)

    async def commit(self, done: Done) -> None:
        """Store the receipt and commit, in one round trip."""
        async with self._connection.pipeline():
            cursor = await self._connection.execute(
                FINISH, finish_arguments([done]), prepare=True, binary=True
            )
            await self._connection.execute(b"commit", prepare=True)
        if await cursor.fetchone() != (1,):
            raise RuntimeError("the claim was not there any more")
        self._free.put_nowait(self._connection)
