"""Databases on two servers, for receipts that are in several databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.sharded_subjects import place
from replayfloor.server.stores.migrate import migrate
from support.services import Postgres, Services
from support.services.postgres_beside import start_beside

TEMPLATE = "unplaced_shard"
FRESH = "fresh_shard"


@pytest.fixture(scope="session")
def second_server(services: Services) -> Postgres:
    """A Postgres beside the usual one."""
    return start_beside(services, "pg-second")


@pytest.fixture(scope="session")
def migrated(services: Services, second_server: Postgres) -> Iterator[tuple[Postgres, Postgres]]:
    """Two servers, each with a migrated database to copy."""
    servers = services.postgres, second_server
    for server in servers:
        migrate(server.database(TEMPLATE))
    yield servers
    services.postgres.drop(TEMPLATE)


@pytest.fixture(scope="session")
def shard_urls(migrated: tuple[Postgres, Postgres]) -> Iterator[tuple[str, str]]:
    """Two databases on two servers, shard 1 and shard 2; no test meets another's keys."""
    first, second = migrated
    urls = first.database("shard", template=TEMPLATE), second.database("shard", template=TEMPLATE)
    place(urls)
    yield urls
    first.drop("shard")


@pytest.fixture
def fresh_urls(migrated: tuple[Postgres, Postgres]) -> Iterator[tuple[str, str]]:
    """Two databases that were told of no place; the servers run again afterwards."""
    first, second = migrated
    yield first.database(FRESH, template=TEMPLATE), second.database(FRESH, template=TEMPLATE)
    for server in migrated:
        server.restore()
        server.drop(FRESH)
