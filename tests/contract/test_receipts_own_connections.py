"""`finish_in` on every library's connections, with the blocking and the asynchronous stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.own_connections import (
    IN_POSTGRES,
    IN_POSTGRES_ASYNC,
    IN_SQLITE,
    IN_SQLITE_ASYNC,
    Own,
    aiosqlite_connection,
    django_atomic,
    django_manual,
    psycopg_async,
    psycopg_blocking,
    sqlalchemy_async_session,
    sqlalchemy_connection,
    sqlalchemy_session,
)
from contract.subjects import (
    blocking_postgres_subject,
    blocking_sqlite_subject,
    postgres_subject,
    sqlite_subject,
)
from replayfloor.core.claims import Finish
from replayfloor.core.errors import UsageError
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.testing.contract import ReceiptsSubject, new_fence, new_id, receipt
from replayfloor.testing.finish_in_contract import FinishInContract


@pytest.mark.slow  # the other colour runs every day
class TestInPostgres(FinishInContract):
    """PostgresReceipts."""

    @pytest.fixture(params=IN_POSTGRES)
    async def subject(
        self, request: pytest.FixtureRequest, migrated_own_url: str
    ) -> AsyncIterator[ReceiptsSubject]:
        own = IN_POSTGRES[request.param]
        async with blocking_postgres_subject(migrated_own_url, own=own) as subject:
            yield subject


class TestInPostgresAsync(FinishInContract):
    """AsyncPostgresReceipts."""

    @pytest.fixture(params=IN_POSTGRES_ASYNC)
    async def subject(
        self, request: pytest.FixtureRequest, migrated_own_url: str
    ) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(
            migrated_own_url, own=IN_POSTGRES_ASYNC[request.param]
        ) as subject:
            yield subject


class TestInSQLite(FinishInContract):
    """SQLiteReceipts."""

    @pytest.fixture(params=IN_SQLITE)
    async def subject(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> AsyncIterator[ReceiptsSubject]:
        path = tmp_path / "receipts.db"
        async with blocking_sqlite_subject(path, own=IN_SQLITE[request.param]) as subject:
            yield subject


class TestInSQLiteAsync(FinishInContract):
    """AsyncSQLiteReceipts."""

    @pytest.fixture(params=IN_SQLITE_ASYNC)
    async def subject(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> AsyncIterator[ReceiptsSubject]:
        path = tmp_path / "receipts.db"
        async with sqlite_subject(path, own=IN_SQLITE_ASYNC[request.param]) as subject:
            yield subject


FINISH = Finish(new_id(), new_fence(), receipt())


@pytest.mark.anyio
@pytest.mark.parametrize("own", [sqlalchemy_connection("pysqlite"), django_atomic])
async def test_a_connection_to_another_kind_of_database_is_refused(
    tmp_path: Path, own: Own
) -> None:
    store = PostgresReceipts("postgresql://u@h/d")
    async with own(str(tmp_path / "other.db")) as other:
        with pytest.raises(UsageError, match=r"receipts are in postgresql, but .* to sqlite"):
            store.finish_in(other.connection, FINISH)
        await other.rollback()


@pytest.mark.anyio
async def test_a_connection_of_the_other_colour_is_refused(
    postgres_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "receipts.db"
    blocking: list[Receipts] = [PostgresReceipts(postgres_url), SQLiteReceipts(path)]
    asynchronous: list[AsyncReceipts] = [
        AsyncPostgresReceipts(postgres_url),
        AsyncSQLiteReceipts(path),
    ]
    for own, address in (
        (psycopg_async, postgres_url),
        (sqlalchemy_async_session("asyncpg"), postgres_url),
        (aiosqlite_connection, str(path)),
    ):
        async with own(address) as other:
            for store in blocking:
                with pytest.raises(UsageError):
                    store.finish_in(other.connection, FINISH)
    for own, address in (
        (psycopg_blocking, postgres_url),
        (sqlalchemy_session("psycopg"), postgres_url),
        (django_manual, postgres_url),
    ):
        async with own(address) as other:
            for async_store in asynchronous:
                with pytest.raises(UsageError):
                    await async_store.finish_in(other.connection, FINISH)


def test_the_transaction_of_the_receipt_is_not_a_handlers_own(migrated_own_url: str) -> None:
    store = PostgresReceipts(migrated_own_url)
    transaction = store.begin()
    with pytest.raises(UsageError, match="BorrowedConnection"):
        store.finish_in(transaction.connection, FINISH)
    transaction.rollback()
    store.close()
