"""Two worker processes on one store, and the ledger their handlers write to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from replayfloor.server.stores.migrate import migrate
from support.worker import Worker

LEASE_S = 1.5
"""Long enough for a slow start of a handler on a busy machine, short enough to be waited for."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Two running workers; `rows` counts what their handlers did for a payment, `claims` how many
    keys are in flight or orphaned."""

    workers: tuple[Worker, Worker]
    rows: Callable[[str], int]
    claims: Callable[[], int]


def workers(tmp_path: Path, environment: dict[str, str]) -> Iterator[tuple[Worker, Worker]]:
    """Start two workers with the same environment; stop them afterwards."""
    pair = (
        Worker(tmp_path / "worker-0.log", environment),
        Worker(tmp_path / "worker-1.log", environment),
    )
    try:
        for worker in pair:
            worker.start()
        yield pair
    finally:
        for worker in pair:
            worker.stop()


@pytest.fixture
def postgres_stack(postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[Stack]:
    """Postgres receipts and a Redis lock."""
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute("create table ledger (payment text, worker integer)")

        def rows(payment: str) -> int:
            query = "select count(*) from ledger where payment = %s"
            row = database.execute(query, (payment,)).fetchone()
            assert row is not None
            return int(row[0])

        def claims() -> int:
            row = database.execute("select count(*) from replayfloor.claims").fetchone()
            assert row is not None
            return int(row[0])

        environment = {
            "LEDGER_RECEIPTS": postgres_url,
            "LEDGER_LOCK": redis_url,
            "LEDGER_LEASE_S": str(LEASE_S),
        }
        for pair in workers(tmp_path, environment):
            yield Stack(pair, rows, claims)


@pytest.fixture
def sqlite_stack(tmp_path: Path) -> Iterator[Stack]:
    """SQLite receipts, shared by two processes, each with a lock of its own."""
    path = tmp_path / "receipts.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table ledger (payment text, worker integer)")

    def rows(payment: str) -> int:
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as reading:
            query = "select count(*) from ledger where payment = ?"
            return int(reading.execute(query, (payment,)).fetchone()[0])

    def claims() -> int:
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as reading:
            return int(reading.execute("select count(*) from replayfloor_claims").fetchone()[0])

    environment = {"LEDGER_RECEIPTS": f"sqlite:///{path}", "LEDGER_LEASE_S": str(LEASE_S)}
    for pair in workers(tmp_path, environment):
        yield Stack(pair, rows, claims)


@pytest.fixture(params=["postgres", "sqlite"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Either stack."""
    found = request.getfixturevalue(f"{request.param}_stack")
    assert isinstance(found, Stack)
    return found
