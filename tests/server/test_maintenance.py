"""The maintenance as a part of the application: of many workers one does it, and all can see it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.retention import InboundPolicy, Sender
from replayfloor.server.maintenance import AsyncMaintenance, Maintenance
from replayfloor.server.stores.maintenance import Outcome, Run
from replayfloor.server.stores.maintenance_postgres import status
from replayfloor.server.stores.migrate import ADVISORY_LOCK, migrate
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.partitions import DAY, START, Database

NOBODY = "postgresql://u@127.0.0.1:1/d"
POLICY = InboundPolicy(
    "hooks",
    senders=(Sender("shop", automatic_retry="72h"),),
    planned_outage="12h",
)
PATIENCE_S = 20.0


@pytest.fixture
def database(postgres_url: str) -> Database:
    """A migrated database."""
    migrate(postgres_url)
    return Database(postgres_url)


def eventually(true: Callable[[], object]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def soon() -> float:
    """Return the least jitter."""
    return 0.0


def test_the_policy_says_for_how_long_receipts_are_kept(database: Database) -> None:
    maintenance = Maintenance(database.url, policy=POLICY)

    run = maintenance.run_once()

    assert run.outcome is Outcome.DONE
    assert maintenance.keeping.retention_s == 84 * 3600
    kept = status(database.url).keeping
    assert kept is not None
    assert kept.retention_s == 84 * 3600


def test_without_a_retention_there_is_nothing_to_maintain() -> None:
    with pytest.raises(ConfigurationError, match="kept for good"):
        Maintenance(NOBODY)
    with pytest.raises(ConfigurationError, match="longer than 84 h"):
        Maintenance(NOBODY, policy=POLICY, audit_retention=timedelta(hours=84))


def test_of_many_workers_one_does_the_work(database: Database) -> None:
    database.set_clock(START)
    together, runs, skipped = threading.Barrier(8), list[Run](), list[Run]()

    def worker() -> None:
        maintenance = Maintenance(database.url, policy=POLICY, on_run=runs.append)
        together.wait()
        skipped.append(maintenance.run_once(600.0))

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [run.outcome for run in runs] == [Outcome.DONE]
    kinds = sorted(run.outcome for run in skipped)
    assert kinds.count(Outcome.DONE) == 1
    assert set(kinds) <= {Outcome.DONE, Outcome.BUSY, Outcome.NOT_DUE}
    late = Maintenance(database.url, policy=POLICY, on_run=runs.append)
    assert late.run_once(600.0).outcome is Outcome.NOT_DUE
    database.set_clock(START + timedelta(seconds=600))
    assert late.run_once(600.0).outcome is Outcome.DONE
    assert len(runs) == 2


def test_a_migration_is_not_disturbed(database: Database) -> None:
    with psycopg.connect(database.url) as migrating:
        migrating.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
        run = Maintenance(database.url, policy=POLICY).run_once()

    assert run.outcome is Outcome.BUSY
    assert status(database.url).last is None


def test_the_thread_works_until_it_is_stopped_and_tells_of_each_run(database: Database) -> None:
    runs: list[Run] = []
    maintenance = Maintenance(
        database.url, policy=POLICY, every_s=1.0, on_run=runs.append, random=soon
    )
    with maintenance:
        maintenance.start()  # once more: it runs already
        eventually(lambda: len(runs) >= 2)
        names = [t.name for t in threading.enumerate() if t.name == "replayfloor-maintenance"]
        assert len(names) == 1

    assert maintenance.last == runs[-1]
    assert {run.outcome for run in runs} == {Outcome.DONE}
    assert runs[-1].by.endswith(f"/{os.getpid()}")
    assert runs[-1].succeeded_at == runs[-1].ran_at
    count = len(runs)
    time.sleep(0.1)
    assert len(runs) == count


@pytest.mark.anyio
async def test_an_asgi_application_starts_and_stops_it_in_its_lifespan(database: Database) -> None:
    maintenance = AsyncMaintenance(Maintenance(database.url, policy=POLICY, random=soon))
    async with maintenance:
        eventually(lambda: maintenance.maintenance.last)

    assert await maintenance.stop()
    assert not any(t.name == "replayfloor-maintenance" for t in threading.enumerate())


def test_a_run_that_fails_is_logged_and_told_and_the_next_one_is_made(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.run("alter table replayfloor.maintenance rename to away")
    runs: list[Run] = []

    def on_run(run: Run) -> None:
        runs.append(run)
        raise RuntimeError("of the application")

    with (
        caplog.at_level(logging.ERROR),
        Maintenance(database.url, policy=POLICY, every_s=1.0, on_run=on_run, random=soon),
    ):
        eventually(lambda: runs)
        database.run("alter table replayfloor.away rename to maintenance")
        eventually(lambda: runs[-1].outcome is Outcome.DONE)

    assert runs[0].outcome is Outcome.FAILED
    assert "maintenance failed" in caplog.text
    assert "on_run raised" in caplog.text


def test_a_database_that_is_away_is_an_error_here_and_a_failed_run_there() -> None:
    maintenance = Maintenance(NOBODY, policy=POLICY, random=soon)
    with pytest.raises(StoreUnavailable):
        maintenance.run_once()

    with maintenance:
        eventually(lambda: maintenance.last)
    assert maintenance.last is not None
    assert maintenance.last.outcome is Outcome.FAILED


def test_a_forked_worker_starts_a_thread_of_its_own(database: Database) -> None:
    maintenance = Maintenance(database.url, policy=POLICY, random=soon)
    maintenance.start()
    eventually(lambda: maintenance.last)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:  # pragma: no cover - the child
        maintenance.start()
        names = [t.name for t in threading.enumerate() if t.name == "replayfloor-maintenance"]
        os.write(writer, str(len(names)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    maintenance.stop()

    assert os.read(reader, 10) == b"1"
    os.close(reader)
    os.close(writer)


def test_a_sqlite_file_is_maintained_too(tmp_path: Path) -> None:
    path = tmp_path / "receipts.db"
    SQLiteReceipts(path).open()
    run = Maintenance(f"sqlite:///{path}", policy=POLICY).run_once()

    assert run.outcome is Outcome.DONE
    with pytest.raises(StoreUnavailable, match="no such file"):
        Maintenance(f"sqlite:///{tmp_path}/other.db", policy=POLICY).run_once()


def test_what_expired_is_gone_after_a_run(database: Database) -> None:
    database.set_clock(START)
    Maintenance(database.url, policy=POLICY).run_once()
    ids = database.insert(START)
    database.set_clock(START + 9 * DAY)

    audited = Maintenance(database.url, policy=POLICY, audit_retention=100 * 86400.0)
    assert audited.run_once().proofs == 1
    assert (database.ids(), database.ids("proofs")) == (set(), set(ids))
