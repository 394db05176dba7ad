"""The receipts contract on every store: Postgres, SQLite, and the simulated world."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import psycopg
import pytest

from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncConnection
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import AsyncPostgresReceipts
from replayfloor.server.stores.sqlite import AsyncSQLiteReceipts
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject
from replayfloor.testing.simulated import SimulatedReceipts
from replayfloor.testing.world import World


async def sleep_ms(pause_ms: int) -> None:
    """Let the store's own clock run."""
    await anyio.sleep(pause_ms / 1000)


def writer(statement: str) -> Callable[[AsyncConnection, ReceiptId], Awaitable[None]]:
    """Return how a handler writes one effect, given the statement of its database."""

    async def write(connection: AsyncConnection, id_: ReceiptId) -> None:
        await connection.execute(statement, (id_,))

    return write


class TestPostgresReceipts(ReceiptsContract):
    """AsyncPostgresReceipts on a real Postgres."""

    @pytest.fixture
    async def subject(self, postgres_url: str) -> AsyncIterator[ReceiptsSubject]:
        migrate(postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as database:
            database.execute("create table ledger (id bytea)")

            async def count(id_: ReceiptId) -> int:
                query = "select count(*) from ledger where id = %s"
                row = database.execute(query, (id_,)).fetchone()
                assert row is not None
                return int(row[0])

            stores = [AsyncPostgresReceipts(postgres_url) for _ in range(2)]
            write = writer("insert into ledger values (%s)")
            yield ReceiptsSubject(stores[0], stores[1], sleep_ms, write, count)
            for store in stores:
                await store.close()


class TestSQLiteReceipts(ReceiptsContract):
    """AsyncSQLiteReceipts: two stores on one file, as two processes have them."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        path = tmp_path / "receipts.db"
        with sqlite3.connect(path) as database:
            database.execute("create table ledger (id blob)")

        async def count(id_: ReceiptId) -> int:
            with sqlite3.connect(path) as database:
                query = "select count(*) from ledger where id = ?"
                return int(database.execute(query, (id_,)).fetchone()[0])

        stores = [AsyncSQLiteReceipts(path) for _ in range(2)]
        write = writer("insert into ledger values (?)")
        yield ReceiptsSubject(stores[0], stores[1], sleep_ms, write, count)
        for store in stores:
            await store.close()


class TestSimulatedReceipts(ReceiptsContract):
    """The world of the schedule explorer."""

    @pytest.fixture
    async def subject(self) -> ReceiptsSubject:
        world = World()

        async def pass_ms(pause_ms: int) -> None:
            world.now_ms += pause_ms

        async def count(id_: ReceiptId) -> int:
            return world.ledger.count(id_)

        stores = [SimulatedReceipts(world) for _ in range(2)]
        return ReceiptsSubject(stores[0], stores[1], pass_ms, writer("ledger"), count)
