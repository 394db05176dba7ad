"""The stores for the tests of the middlewares: SQLite with a local lock, Postgres with Redis.

Each comes under both middlewares; a test asks for what its promise is about:

    backend                                 both stores, ASGI and WSGI
    sqlite, postgres                        one of the stores, ASGI and WSGI
    asgi, asgi_sqlite, asgi_postgres        what is about ASGI itself
    wsgi, wsgi_sqlite, wsgi_postgres        what is about WSGI itself
    worker                                  the same, in the test's own thread
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replayfloor.server.stores.migrate import migrate
from server.backends import Backend, Ledger, Side, empty, sqlite_url
from server.wsgi_client import Worker
from support.services import Services

DATABASE = "test_server"


@pytest.fixture(scope="session")
def migrated_url(services: Services) -> Iterator[str]:
    """The address of a database with our schema and a ledger, for all of these tests in turn.

    Making and dropping one for each test takes longer than most of the tests.
    """
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


@asynccontextmanager
async def _made(kind: str, side: Side, request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        url = sqlite_url(folder / "receipts.db")
        made = Backend(kind, side, url, "local", Ledger(url))
        made.ledger.create()
    else:
        url = request.getfixturevalue("emptied_url")
        made = Backend(kind, side, url, request.getfixturevalue("redis_url"), Ledger(url))
    yield made
    await made.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """The blocking stores of one process, without any event loop."""
    made = Worker(tmp_path)
    yield made
    made.receipts.close()


ALL = ["sqlite-asgi", "sqlite-wsgi", "postgres-asgi", "postgres-wsgi"]


def _fixture(*names: str, slow: str = "") -> object:
    each = [pytest.param(name, marks=[pytest.mark.slow] if name == slow else []) for name in names]

    @pytest.fixture(params=each)
    async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
        kind, _, side = request.param.partition("-")
        async with _made(kind, side, request) as made:
            yield made

    return backend


def _with(part: str) -> list[str]:
    return [name for name in ALL if part in name]


# Every day both sides and both stores, and three of the four pairs; the fourth in the slow run.
backend = _fixture(*ALL, slow="sqlite-wsgi")
sqlite = _fixture(*_with("sqlite"))
postgres = _fixture(*_with("postgres"))
asgi = _fixture(*_with("asgi"))
asgi_sqlite = _fixture("sqlite-asgi")
asgi_postgres = _fixture("postgres-asgi")
wsgi = _fixture(*_with("wsgi"))
wsgi_sqlite = _fixture("sqlite-wsgi")
wsgi_postgres = _fixture("postgres-wsgi")
