"""The stores of the consumers under test: Postgres and Redis, awaited and blocking.

backend        both ways of calling
awaited        what is about asyncio itself
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from replayfloor.server.stores.migrate import migrate
from server.backends import Backend, Ledger, Side, empty
from support.services import Services

DATABASE = "test_once"


@pytest.fixture(scope="session")
def migrated_url(services: Services) -> Iterator[str]:
    """The address of a database with our schema and a ledger, for all of these tests in turn."""
    url = services.postgres.database(DATABASE)
    migrate(url)
    Ledger(url).create()
    yield url
    services.postgres.restore()
    services.postgres.drop(DATABASE)


@pytest.fixture
def emptied_url(services: Services, migrated_url: str) -> Iterator[str]:
    """The same, empty, and without anyone that an earlier test left connected."""
    empty(migrated_url)
    yield migrated_url
    services.postgres.restore()


def _fixture(*sides: Side) -> object:
    @pytest.fixture(params=sides)
    async def backend(
        request: pytest.FixtureRequest, emptied_url: str, redis_url: str
    ) -> AsyncIterator[Backend]:
        made = Backend("postgres", request.param, emptied_url, redis_url, Ledger(emptied_url))
        yield made
        await made.close()

    return backend


backend = _fixture("asgi", "wsgi")
awaited = _fixture("asgi")
