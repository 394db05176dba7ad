"""Stores made ready for the receipts contract, with a ledger beside them to count effects in."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import anyio
import psycopg

from contract.own_connections import (
    AsyncTransaction,
    Own,
    psycopg_async,
    psycopg_blocking,
    sqlite3_implicit,
    sqlite3_in_place,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncConnection, AsyncReceipts
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.testing.contract import OwnTransaction, ReceiptsSubject
from replayfloor.testing.simulated import OwnSimulatedConnection, SimulatedReceipts
from replayfloor.testing.threads import in_threads
from replayfloor.testing.world import World


async def sleep_ms(pause_ms: int) -> None:
    """Let the store's own clock run."""
    await anyio.sleep(pause_ms / 1000)


def writer(statement: str) -> Callable[[AsyncConnection, ReceiptId], Awaitable[None]]:
    """Return how a handler writes one effect, given the statement of its database."""

    async def write(connection: AsyncConnection, id_: ReceiptId) -> None:
        await connection.execute(statement, (id_,))

    return write


@asynccontextmanager
async def postgres_subject(
    url: str, *, direct_url: str | None = None, own: Own = psycopg_async
) -> AsyncGenerator[ReceiptsSubject]:
    """Two asynchronous stores on one migrated database."""
    stores = [AsyncPostgresReceipts(url) for _ in range(2)]
    async with _in_postgres(url, direct_url or url, stores, own) as subject:
        yield subject


@asynccontextmanager
async def blocking_postgres_subject(
    url: str, *, direct_url: str | None = None, own: Own = psycopg_blocking
) -> AsyncGenerator[ReceiptsSubject]:
    """Two blocking stores on one migrated database."""
    stores = [in_threads(PostgresReceipts(url)) for _ in range(2)]
    async with _in_postgres(url, direct_url or url, stores, own) as subject:
        yield subject


@asynccontextmanager
async def _in_postgres(
    url: str, direct_url: str, stores: list[AsyncPostgresReceipts] | list[AsyncReceipts], own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    migrate(direct_url)
    with psycopg.connect(direct_url, autocommit=True) as database:
        database.execute("create table if not exists ledger (id bytea)")

        async def count(id_: ReceiptId) -> int:
            row = database.execute("select count(*) from ledger where id = %s", (id_,)).fetchone()
            assert row is not None
            return int(row[0])

        write = writer("insert into ledger values (%s)")
        yield ReceiptsSubject(
            stores[0],
            stores[1],
            sleep_ms,
            write,
            count,
            partial(own, url),
            partial(own, url, autocommit=True),
        )
        for store in stores:
            await store.close()


@asynccontextmanager
async def sqlite_subject(
    path: Path, *, own: Own = sqlite3_in_place
) -> AsyncGenerator[ReceiptsSubject]:
    """Two asynchronous stores on one file, as two processes have them."""
    stores = [AsyncSQLiteReceipts(path) for _ in range(2)]
    async with _in_sqlite(path, stores, own) as subject:
        yield subject


@asynccontextmanager
async def blocking_sqlite_subject(
    path: Path, *, own: Own = sqlite3_implicit
) -> AsyncGenerator[ReceiptsSubject]:
    """Two blocking stores on one file."""
    stores = [in_threads(SQLiteReceipts(path)) for _ in range(2)]
    async with _in_sqlite(path, stores, own) as subject:
        yield subject


@asynccontextmanager
async def _in_sqlite(
    path: Path, stores: list[AsyncSQLiteReceipts] | list[AsyncReceipts], own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table ledger (id blob)")

    async def count(id_: ReceiptId) -> int:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            query = "select count(*) from ledger where id = ?"
            return int(database.execute(query, (id_,)).fetchone()[0])

    write = writer("insert into ledger values (?)")
    opened = partial(own, str(path))
    yield ReceiptsSubject(
        stores[0], stores[1], sleep_ms, write, count, opened, partial(opened, autocommit=True)
    )
    for store in stores:
        await store.close()


def simulated_subject() -> ReceiptsSubject:
    """Two stores in one simulated world."""
    world = World()

    async def pass_ms(pause_ms: int) -> None:
        world.now_ms += pause_ms

    async def count(id_: ReceiptId) -> int:
        return world.ledger.count(id_)

    @asynccontextmanager
    async def own(*, autocommit: bool = False) -> AsyncGenerator[OwnTransaction]:
        connection = OwnSimulatedConnection(world, autocommit=autocommit)

        async def insert(id_: ReceiptId) -> None:
            connection.write(id_)

        async def end() -> None:
            connection.commit()

        async def undo() -> None:
            connection.rollback()

        yield AsyncTransaction(connection, insert, end, undo)

    stores = [SimulatedReceipts(world) for _ in range(2)]
    return ReceiptsSubject(
        stores[0], stores[1], pass_ms, writer("ledger"), count, own, partial(own, autocommit=True)
    )
