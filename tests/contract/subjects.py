"""Stores made ready for the receipts contract, with a ledger beside them to count effects in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import psycopg

from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncConnection
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import ReceiptsSubject


async def sleep_ms(pause_ms: int) -> None:
    """Let the store's own clock run."""
    await anyio.sleep(pause_ms / 1000)


def writer(statement: str) -> Callable[[AsyncConnection, ReceiptId], Awaitable[None]]:
    """Return how a handler writes one effect, given the statement of its database."""

    async def write(connection: AsyncConnection, id_: ReceiptId) -> None:
        await connection.execute(statement, (id_,))

    return write


@asynccontextmanager
async def postgres_subject(url: str) -> AsyncGenerator[ReceiptsSubject]:
    """Two stores on one migrated database."""
    migrate(url)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("create table ledger (id bytea)")

        async def count(id_: ReceiptId) -> int:
            row = database.execute("select count(*) from ledger where id = %s", (id_,)).fetchone()
            assert row is not None
            return int(row[0])

        stores = [AsyncPostgresReceipts(url) for _ in range(2)]
        write = writer("insert into ledger values (%s)")
        yield ReceiptsSubject(stores[0], stores[1], sleep_ms, write, count)
        for store in stores:
            await store.close()
