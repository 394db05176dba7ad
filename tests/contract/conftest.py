"""Databases on two servers, for receipts that are in several databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.sharded_subjects import place
from replayfloor.server.stores.migrate import migrate
from support.services import Postgres, Services
from support.services.databases import Databases
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


@pytest.fixture(scope="session")
def fresh_shards(migrated: tuple[Postgres, Postgres]) -> tuple[Databases, Databases]:
    """What such databases are taken from, of each server."""
    first, second = migrated
    return Databases(first, FRESH, migrate), Databases(second, FRESH, migrate)


@pytest.fixture
def fresh_urls(
    migrated: tuple[Postgres, Postgres], fresh_shards: tuple[Databases, Databases]
) -> Iterator[tuple[str, str]]:
    """Two databases that were told of no place; the servers run again afterwards."""
    first, second = fresh_shards
    urls = first.take(), second.take()
    yield urls
    for server, shards, url in zip(migrated, fresh_shards, urls, strict=True):
        server.restore()
        shards.give_back(url)
