"""Databases on two servers, for receipts that are in several databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.sharded_subjects import place
from replayfloor.server.stores.migrate import migrate
from support.services import Postgres, Services
from support.services.databases import Databases
from support.services.postgres_beside import start_beside


@pytest.fixture(scope="session")
def second_server(services: Services) -> Postgres:
    """A Postgres beside the usual one."""
    return start_beside(services, "pg-second")


@pytest.fixture(scope="session")
def fresh_shards(services: Services, second_server: Postgres) -> tuple[Databases, Databases]:
    """What databases are taken from that were told of no place, on each of two servers."""
    name = "fresh_shard"
    return Databases(services.postgres, name, migrate), Databases(second_server, name, migrate)


@pytest.fixture(scope="session")
def shard_urls(fresh_shards: tuple[Databases, Databases]) -> Iterator[tuple[str, str]]:
    """Two databases on two servers, shard 1 and shard 2; no test meets another's keys."""
    first, second = fresh_shards
    with first.lent() as one, second.lent() as other:
        urls = one, other
        place(urls)
        yield urls


@pytest.fixture
def fresh_urls(fresh_shards: tuple[Databases, Databases]) -> Iterator[tuple[str, str]]:
    """Two databases that were told of no place; the servers run again afterwards."""
    first, second = fresh_shards
    with first.lent() as one, second.lent() as other:
        yield one, other
