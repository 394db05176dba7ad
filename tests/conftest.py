"""Fixtures for every test: the private servers, started by the first test that needs one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from support.services import Postgres, Redis, Services

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run `@pytest.mark.anyio` tests on asyncio: psycopg and redis know no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """The servers of this run; nothing is started before it is asked for."""
    with pytest.MonkeyPatch.context() as patch, Services() as running:
        for name in [name for name in os.environ if _is_libpq(name)]:
            patch.delenv(name)
        yield running


def _is_libpq(name: str) -> bool:
    # PGHOST, PGSSLMODE, PGOPTIONS… of a developer's shell would change what psycopg does.
    return name.startswith("PG") and "_" not in name


@pytest.fixture
def postgres_url(services: Services) -> Iterator[str]:
    """The address of a fresh, empty database; dropped afterwards."""
    name = f"test_{next(_numbers)}"
    yield services.postgres.database(name)
    services.postgres.restore()
    services.postgres.drop(name)


@pytest.fixture
def redis_url(services: Services) -> Iterator[str]:
    """The address of an empty logical database."""
    yield services.redis.database()
    services.redis.restore()


@pytest.fixture
def postgres_server(services: Services) -> Iterator[Postgres]:
    """The server itself, to kill or freeze; it runs again after the test."""
    yield services.postgres
    services.postgres.restore()


@pytest.fixture
def redis_server(services: Services) -> Iterator[Redis]:
    """The server itself, to kill or freeze; it runs again after the test."""
    yield services.redis
    services.redis.restore()
