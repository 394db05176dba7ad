"""A database with an inbox and a ledger, for all tests of the inbox in turn."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from replayfloor.server.stores.migrate import migrate
from support.services import Services

DATABASE = "test_inbox"
EMPTIED = (
    "replayfloor.inbox",
    "replayfloor.claims",
    "replayfloor.receipts",
    "replayfloor.audit",
    "ledger",
)


@pytest.fixture(scope="session")
def migrated_inbox_url(services: Services) -> Iterator[str]:
    """The address of a migrated database; making one for each test takes longer than the tests."""
    url = services.postgres.database(DATABASE)
    migrate(url)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("create table ledger (seq serial, entry text not null, run text not null)")
    yield url
    services.postgres.restore()
    services.postgres.drop(DATABASE)


@pytest.fixture
def inbox_url(services: Services, migrated_inbox_url: str) -> Iterator[str]:
    """The same, empty, and without anyone that an earlier test left connected."""
    with psycopg.connect(migrated_inbox_url, autocommit=True) as database:
        database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        for table in EMPTIED:
            database.execute(f"delete from {table}".encode())
    yield migrated_inbox_url
    services.postgres.restore()
