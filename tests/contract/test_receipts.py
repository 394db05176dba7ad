"""The receipts contract on every store, in both colours, and on the simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.subjects import (
    blocking_postgres_subject,
    blocking_sqlite_subject,
    postgres_subject,
    simulated_subject,
    sqlite_subject,
)
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject


class TestAsyncPostgresReceipts(ReceiptsContract):
    """AsyncPostgresReceipts on a real Postgres."""

    @pytest.fixture
    async def subject(self, migrated_own_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(migrated_own_url) as subject:
            yield subject


class TestPostgresReceipts(ReceiptsContract):
    """PostgresReceipts, each call in a thread of its own."""

    @pytest.fixture
    async def subject(self, migrated_own_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_postgres_subject(migrated_own_url) as subject:
            yield subject


class TestAsyncSQLiteReceipts(ReceiptsContract):
    """AsyncSQLiteReceipts: two stores on one file, as two processes have them."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        async with sqlite_subject(tmp_path / "receipts.db") as subject:
            yield subject


class TestSQLiteReceipts(ReceiptsContract):
    """SQLiteReceipts, each call in a thread of its own."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_sqlite_subject(tmp_path / "receipts.db") as subject:
            yield subject


class TestSimulatedReceipts(ReceiptsContract):
    """The world of the schedule explorer."""

    @pytest.fixture
    async def subject(self) -> ReceiptsSubject:
        return simulated_subject()
