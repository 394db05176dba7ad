"""A handler's own connection to the receipts' database, in the manner of the backend's side."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import psycopg
from anyio import to_thread

from server.backends import Backend

WAIT_S = 5


class Own:
    """One transaction of the handler's. `connection` is what `claim.finish_in` is given."""

    def __init__(self, backend: Backend, connection: object) -> None:
        self._backend, self.connection = backend, connection

    async def write(self, entry: str = "own") -> None:
        """Write a row into the ledger."""
        await self._do("execute", self._backend.ledger.insert, (entry,))

    async def commit(self) -> None:
        """Make it so."""
        await self._do("commit")

    async def rollback(self) -> None:
        """Undo it."""
        await self._do("rollback")

    async def close(self) -> None:
        """Close the connection; what was not committed is undone."""
        await self._do("close")

    async def _do(self, name: str, *arguments: object) -> None:
        work = cast("Callable[..., object]", getattr(self.connection, name))
        if isinstance(self.connection, psycopg.AsyncConnection):
            await cast("Callable[..., Awaitable[object]]", work)(*arguments)
        else:
            await to_thread.run_sync(work, *arguments)


@asynccontextmanager
async def own_transaction(backend: Backend) -> AsyncIterator[Own]:
    """Open a connection, as a handler's own library would."""
    own = Own(backend, await _connect(backend))
    try:
        yield own
    finally:
        await own.close()


async def _connect(backend: Backend) -> object:
    url = backend.receipts_url
    if not backend.is_postgres:
        path = url.removeprefix("sqlite:///")
        # Over WSGI the handler's thread is another than this one.
        return sqlite3.connect(path, timeout=WAIT_S, check_same_thread=False)
    if backend.is_wsgi:
        return await to_thread.run_sync(psycopg.connect, url)
    return await psycopg.AsyncConnection.connect(url)
