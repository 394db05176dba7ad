"""The stores for the tests of the middleware: SQLite with a local lock, Postgres with Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replayfloor.server.stores.migrate import migrate
from server.backends import Backend, Ledger, sqlite_url


def _sqlite(folder: Path) -> Backend:
    url = sqlite_url(folder / "receipts.db")
    return Backend("sqlite", url, "local", Ledger(url))


def _postgres(request: pytest.FixtureRequest) -> Backend:
    url: str = request.getfixturevalue("postgres_url")
    lock: str = request.getfixturevalue("redis_url")
    migrate(url)
    return Backend("postgres", url, lock, Ledger(url))


@pytest.fixture(params=["sqlite", "postgres"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """Either kind of stores, with an empty ledger; every store made of it is closed afterwards."""
    made = _sqlite(tmp_path) if request.param == "sqlite" else _postgres(request)
    made.ledger.create()
    yield made
    await made.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Backend]:
    """SQLite with a local lock."""
    made = _sqlite(tmp_path)
    made.ledger.create()
    yield made
    await made.close()


@pytest.fixture
async def postgres(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """Postgres with a lock in Redis."""
    made = _postgres(request)
    made.ledger.create()
    yield made
    await made.close()
