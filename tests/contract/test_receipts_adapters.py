"""The receipts contract on the adapters: the handler's transaction is SQLAlchemy's or Django's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from contract.adapter_subjects import (
    async_sqlalchemy_subject,
    django_postgres_subject,
    django_sqlite_subject,
    sqlalchemy_sqlite_subject,
    sqlalchemy_subject,
)
from contract.own_connections import IN_POSTGRES, IN_POSTGRES_ASYNC, IN_SQLITE
from replayfloor.server.stores.migrate import migrate
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject
from support.services import Services


# One database for all tests: none of them meets another's keys.
@pytest.fixture(scope="module")
def adapted_url(services: Services) -> Iterator[str]:
    """The address of a migrated database."""
    url = services.postgres.database("adapted")
    migrate(url)
    yield url
    services.postgres.drop("adapted")


class TestSQLAlchemyReceipts(ReceiptsContract):
    """SQLAlchemyReceipts on Postgres."""

    @pytest.fixture(params=["psycopg", pytest.param("psycopg2", marks=pytest.mark.slow)])
    async def subject(
        self, request: pytest.FixtureRequest, adapted_url: str
    ) -> AsyncIterator[ReceiptsSubject]:
        own = IN_POSTGRES[f"sqlalchemy-{request.param}"]
        async with sqlalchemy_subject(adapted_url, request.param, own) as subject:
            yield subject


@pytest.mark.slow  # the same adapter, on the other database
class TestSQLAlchemyReceiptsInSQLite(ReceiptsContract):
    """SQLAlchemyReceipts on a SQLite file."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        own = IN_SQLITE["sqlalchemy"]
        async with sqlalchemy_sqlite_subject(tmp_path / "receipts.db", own) as subject:
            yield subject


class TestAsyncSQLAlchemyReceipts(ReceiptsContract):
    """AsyncSQLAlchemyReceipts on Postgres."""

    @pytest.fixture(params=[pytest.param("psycopg", marks=pytest.mark.slow), "asyncpg"])
    async def subject(
        self, request: pytest.FixtureRequest, adapted_url: str
    ) -> AsyncIterator[ReceiptsSubject]:
        own = IN_POSTGRES_ASYNC[f"sqlalchemy-{request.param}"]
        async with async_sqlalchemy_subject(adapted_url, request.param, own) as subject:
            yield subject


class TestDjangoReceipts(ReceiptsContract):
    """DjangoReceipts on Postgres."""

    @pytest.fixture
    async def subject(self, adapted_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with django_postgres_subject(adapted_url, IN_POSTGRES["django-atomic"]) as subject:
            yield subject


@pytest.mark.slow  # the same adapter, on the other database
class TestDjangoReceiptsInSQLite(ReceiptsContract):
    """DjangoReceipts on a SQLite file."""

    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
        path = tmp_path / "receipts.db"
        async with django_sqlite_subject(path, IN_SQLITE["django-atomic"]) as subject:
            yield subject
