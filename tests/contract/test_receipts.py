"""The receipts contract on every store: Postgres, SQLite, and the simulated world."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from contract.subjects import postgres_subject, sleep_ms, writer
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject
from replayfloor.testing.simulated import SimulatedReceipts
from replayfloor.testing.world import World


class TestPostgresReceipts(ReceiptsContract):
    """AsyncPostgresReceipts on a real Postgres."""

    @pytest.fixture
    async def subject(self, postgres_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(postgres_url) as subject:
            yield subject


class TestSQLiteReceipts(ReceiptsContract):
    """AsyncSQLiteReceipts: two stores on one file, as two processes have them."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        path = tmp_path / "receipts.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("create table ledger (id blob)")

        async def count(id_: ReceiptId) -> int:
            with closing(sqlite3.connect(path, isolation_level=None)) as database:
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
