"""The worker that applied an event is killed before it answers, and its deploy goes wrong.

The event is created at hour 0. Its retries find nobody until hour 29; the one at hour 30 gets
through. People have it sent again on day 12 and on day 29. With a retention of 24 h each of these
would have been applied again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from replayfloor.server.maintenance import Maintenance
from replayfloor.server.stores.maintenance import Outcome
from replayfloor.server.stores.migrate import migrate
from server.backends import Ledger
from server.hooks_worker import POLICY
from server.moments import HOUR_S, NOW, REAL
from support.services import Services
from support.services.server import free_port
from support.sources import ROOT

DAY_S = 24 * HOUR_S
START_S = 30.0


class Days:
    """One clock for the process and the database."""

    def __init__(self, url: str, file: Path) -> None:
        self._url, self.file = url, file
        self.start_s = int(time.time())
        self.at(0)

    def at(self, after_s: int) -> None:
        """Let it be so long after the beginning."""
        now_ms = (self.start_s + after_s) * 1000
        self.file.write_text(str(now_ms))
        self._now_is(f"$$ select timestamptz 'epoch' + {now_ms} * interval '1 ms' $$")

    def restore(self) -> None:
        """Let the database have its own time again."""
        self._now_is(REAL)

    def _now_is(self, body: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute((NOW + body).encode())


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    """A database of its own: its partitions are those of weeks to come."""
    made = services.postgres.database("test_hooks_killed")
    migrate(made)
    Ledger(made).create()
    yield made
    services.postgres.drop("test_hooks_killed")


@pytest.fixture
def days(url: str, tmp_path: Path) -> Iterator[Days]:
    made = Days(url, tmp_path / "clock")
    yield made
    made.restore()


@contextmanager
def worker(days: Days, receipts: str, lock: str, *kill: str) -> Iterator[str]:
    """Run a process that receives; give the URL of its endpoint."""
    port = free_port()
    command = [sys.executable, "-m", "server.hooks_worker", receipts, lock, str(days.file)]
    process = subprocess.Popen(
        [*command, str(port), *kill],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "tests"), "PATH": "/usr/bin:/bin"},
    )
    try:
        until = time.monotonic() + START_S
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/hooks/stripe"
    finally:
        process.kill()
        process.wait()


def test_an_event_is_applied_once_although_its_worker_was_killed_before_it_answered(
    days: Days, url: str, redis_url: str
) -> None:
    ledger = Ledger(url)
    event = {"id": "evt_1", "created": days.start_s}

    with worker(days, url, redis_url, "kill") as endpoint:
        with pytest.raises(httpx.TransportError):
            httpx.post(endpoint, json=event, trust_env=False)
        applied = ledger.rows()
        for hour in (1, 3, 12, 29):
            days.at(hour * HOUR_S)
            with pytest.raises(httpx.ConnectError):
                httpx.post(endpoint, json=event, trust_env=False)

    answers: list[tuple[int, str | None]] = []
    days.at(30 * HOUR_S)
    with worker(days, url, redis_url) as endpoint:
        for after_s in (30 * HOUR_S, 12 * DAY_S, 29 * DAY_S):
            days.at(after_s)
            assert Maintenance(url, policy=POLICY).run_once().outcome is Outcome.DONE
            with redis.Redis.from_url(redis_url) as connection:
                connection.flushdb()
            answer = httpx.post(endpoint, json=event, trust_env=False)
            answers.append((answer.status_code, answer.headers.get("idempotent-replayed")))

    assert applied == ["evt_1"]
    assert answers == [(200, "true")] * 3
    assert ledger.rows() == ["evt_1"]
