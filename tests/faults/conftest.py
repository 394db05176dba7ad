"""Two worker processes on one store, and the ledger their handlers write to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from support.fork_server import ForkServer
from support.ledger import Ledger
from support.tcp_proxy import TcpProxy, tcp_proxy
from support.worker import Worker

LEASE_S = 1.0
"""Long enough for a slow start of a handler on a busy machine, short enough to be waited for."""


@pytest.fixture
def lease_s() -> float:
    """The lease of a stack's workers; a module may have a fixture of its own."""
    return LEASE_S


@pytest.fixture
def side() -> str:
    """Whether a stack's workers serve over "asgi" or "wsgi"; a test may be run with both."""
    return "asgi"


both_sides = pytest.mark.parametrize("side", ["asgi", "wsgi"])


def combinations(*paths: str) -> pytest.MarkDecorator:
    """Run a test with every store, on both sides, and with the handlers of these paths.

    Every day with each of them on Postgres and ASGI, and with one in each other place.
    """
    others = [("postgres", "wsgi"), ("sqlite", "asgi"), ("sqlite", "wsgi")]
    everyday = {("postgres", "asgi", path) for path in paths} | {
        (*place, path) for place, path in zip(others, cycle(paths), strict=False)
    }
    every = [(*place, path) for place in [("postgres", "asgi"), *others] for path in paths]
    slow = pytest.mark.slow
    return pytest.mark.parametrize(
        ("store", "side", "path"),
        [pytest.param(*each, marks=() if each in everyday else slow) for each in every],
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """Two running workers, and what is read past them: `ledger` holds what their handlers did,
    `claims` how many keys are in flight or orphaned. `add` makes further workers, not started."""

    workers: tuple[Worker, Worker]
    ledger: Ledger
    claims: Callable[[], int]
    receipts_url: str
    lock_url: str
    add: Callable[..., Worker]

    def rows(self, payment: str) -> int:
        """Return how many rows there are for a payment."""
        return len(self.ledger.runs(payment))


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """The process that all workers are forked from."""
    with ForkServer() as running:
        yield running


@contextmanager
def workers(
    forks: ForkServer, folder: Path, environment: Mapping[str, str]
) -> Iterator[Callable[..., Worker]]:
    """Give a function that makes workers; `changes` are further variables. All stop at the end."""
    made: list[Worker] = []
    numbers = count()

    def make(forks: ForkServer = forks, **changes: str) -> Worker:
        log = folder / f"worker-{next(numbers)}.log"
        worker = Worker(forks, log, {**environment, **changes})
        made.append(worker)
        return worker

    try:
        yield make
    finally:
        for worker in made:
            worker.kill()


@pytest.fixture
def postgres_stack(
    migrated_own_url: str,
    redis_url: str,
    forks: ForkServer,
    tmp_path: Path,
    lease_s: float,
    side: str,
) -> Iterator[Stack]:
    """Postgres receipts and a Redis lock."""
    ledger = Ledger(migrated_own_url)
    ledger.create()

    def claims() -> int:
        with psycopg.connect(migrated_own_url) as database:
            row = database.execute("select count(*) from replayfloor.claims").fetchone()
        assert row is not None
        return int(row[0])

    environment = {
        "LEDGER_RECEIPTS": migrated_own_url,
        "LEDGER_LOCK": redis_url,
        "LEDGER_LEASE_S": str(lease_s),
        "LEDGER_SIDE": side,
    }
    with workers(forks, tmp_path, environment) as make:
        pair = (make().start(), make().start())
        yield Stack(pair, ledger, claims, migrated_own_url, redis_url, make)


@pytest.fixture
def sqlite_stack(forks: ForkServer, tmp_path: Path, lease_s: float, side: str) -> Iterator[Stack]:
    """SQLite receipts, shared by two processes, each with a lock of its own."""
    path = tmp_path / "receipts.db"
    url = f"sqlite:///{path}"
    ledger = Ledger(url)
    ledger.create()

    def claims() -> int:
        with closing(sqlite3.connect(path, timeout=10)) as reading:
            return int(reading.execute("select count(*) from replayfloor_claims").fetchone()[0])

    environment = {"LEDGER_RECEIPTS": url, "LEDGER_LEASE_S": str(lease_s), "LEDGER_SIDE": side}
    with workers(forks, tmp_path, environment) as make:
        pair = (make().start(), make().start())
        yield Stack(pair, ledger, claims, url, "local", make)


@pytest.fixture(params=["postgres", "sqlite"])
def store(request: pytest.FixtureRequest) -> str:
    """Where the receipts of `stack` are."""
    return str(request.param)


@pytest.fixture
def stack(request: pytest.FixtureRequest, store: str, side: str, lease_s: float) -> Stack:
    """Either stack; `side` and `lease_s` are named here so that a test can be run with several."""
    found = request.getfixturevalue(f"{store}_stack")
    assert isinstance(found, Stack)
    return found


@pytest.fixture
def proxy(postgres_stack: Stack) -> Iterator[TcpProxy]:
    """What can stand between a worker and Postgres; see `behind`."""
    port = urlsplit(postgres_stack.receipts_url).port
    assert port is not None
    with tcp_proxy(port) as running:
        yield running


def behind(proxy: TcpProxy, stack: Stack, **changes: str) -> Worker:
    """Make a worker whose receipts are behind the proxy; its ledger is not."""
    parts = urlsplit(stack.receipts_url)
    url = parts._replace(netloc=f"{parts.username}@{parts.hostname}:{proxy.port}").geturl()
    return stack.add(LEDGER_RECEIPTS=url, LEDGER_EFFECTS=stack.receipts_url, **changes)
