"""The servers of a run, and the blows that fall on them. Where and when they fall is the plan's."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Generator
from pathlib import Path

import psycopg

from chaos.bank import Bank
from chaos.book import Struck
from chaos.plan import WORKERS, Blow, Plan, Strike
from chaos.processes import WorkerProcess
from chaos.worker import LEDGER, WorkerPlan
from replayfloor.server.stores.migrate import migrate
from support.services import Redis, Services
from support.services.server import START_TIMEOUT_S

TERMINATED = 4
"""Backends ended by one blow: some of a worker's pool, so that others go on."""

POLL_S = 0.05

BACKENDS = """
select pid from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
order by random() limit %s
"""


class Stage:
    """Postgres, a watched Redis with a replica, and the workers."""

    def __init__(self, services: Services, folder: Path, plan: Plan, bank: Bank) -> None:
        """Start the servers; no worker yet."""
        self.postgres, self.redis = services.postgres, services.redis_sentinels
        self.url = self.postgres.database("chaos")
        migrate(self.url)
        with psycopg.connect(self.url) as database:
            database.execute(LEDGER)
        worker_plan = WorkerPlan(
            port=0,
            receipts=self.url,
            lock=self.redis.url,
            bank_port=bank.port,
            trail="",
            lease_s=plan.lease_s,
            broken=plan.broken,
        )
        self.workers = [WorkerProcess(folder, number, worker_plan) for number in range(WORKERS)]

    def strike(self, strike: Strike) -> Struck:
        """Strike, wait as long as it lasts, and bring back what was struck."""
        began = time.time()
        pids: tuple[int, ...] = ()
        match strike.blow:
            case Blow.WORKER_KILLED:
                pids = self._kill_worker(strike)
            case Blow.WORKER_STOPPED:
                pids = self._stop_worker(strike)
            case Blow.BACKENDS_TERMINATED:
                pids = self._end_backends(TERMINATED, signal.SIGTERM)
            case Blow.BACKEND_KILLED:
                pids = self._end_backends(1, signal.SIGKILL)
            case Blow.POSTMASTER_KILLED:
                self.postgres.crash()
                time.sleep(strike.lasts_s)
                self.postgres.start()
            case Blow.REDIS_KILLED:
                self._crash_redis(self.redis.primary, empty=False)
            case Blow.REDIS_EMPTIED:
                self._crash_redis(self.redis.primary, empty=True)
            case Blow.REDIS_FLUSHED:
                self.redis.primary.flush()
            case Blow.REDIS_FAILED_OVER:
                self._fail_over()
        return Struck(strike, began, time.time(), pids)

    def _kill_worker(self, strike: Strike) -> tuple[int, ...]:
        worker = self.workers[strike.worker]
        pid = worker.pid
        if worker.ended:
            raise RuntimeError(f"a worker ended by itself:\n{worker.log.read_text()[-2000:]}")
        worker.kill()
        time.sleep(strike.lasts_s)
        worker.start()
        return (pid,)

    def _stop_worker(self, strike: Strike) -> tuple[int, ...]:
        worker = self.workers[strike.worker]
        worker.send(signal.SIGSTOP)
        time.sleep(strike.lasts_s)
        worker.send(signal.SIGCONT)
        return (worker.pid,)

    def _end_backends(self, count: int, number: signal.Signals) -> tuple[int, ...]:
        """SIGTERM is what pg_terminate_backend sends; SIGKILL makes all others end as well."""
        with psycopg.connect(self.url, autocommit=True) as database:
            found = [int(pid) for (pid,) in database.execute(BACKENDS, (count,)).fetchall()]
            for pid in found:
                if number is signal.SIGTERM:
                    database.execute("select pg_terminate_backend(%s)", (pid,))
                else:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
        if number is signal.SIGKILL:
            self._wait_for_postgres()
        return tuple(found)

    def _wait_for_postgres(self) -> None:
        """Wait until the postmaster has recovered: the next blow needs something to hit."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with psycopg.connect(self.url, connect_timeout=2) as database:
                    database.execute("select 1")
                    return
            except psycopg.Error:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def _crash_redis(self, server: Redis, *, empty: bool) -> None:
        """Kill and restart it sooner than the sentinels would act."""
        server.crash()
        if empty:
            shutil.rmtree(server.dir / "appendonlydir", ignore_errors=True)
        server.start()

    def _fail_over(self) -> None:
        """Kill the one in charge; bring it back, as a replica, once the other one is."""
        before = self.redis.primary
        before.crash()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.redis.primary is before:
            if time.monotonic() > deadline:
                raise RuntimeError("the sentinels did not name another one")
            time.sleep(POLL_S)
        self.redis.restore()

    def heal(self) -> None:
        """Bring everything back."""
        self.postgres.restore()
        self._wait_for_postgres()
        self.redis.restore()
        for worker in self.workers:
            worker.send(signal.SIGCONT)
            if worker.ended:
                worker.start()


@contextlib.contextmanager
def set_up(folder: Path, plan: Plan, bank: Bank) -> Generator[Stage]:
    """Start the servers of a run; none of them outlives it."""
    with _no_variables_of_libpq(), Services() as services:
        stage = Stage(services, folder, plan, bank)
        try:
            for worker in stage.workers:
                worker.start()
            yield stage
        finally:
            for worker in stage.workers:
                worker.close()


@contextlib.contextmanager
def _no_variables_of_libpq() -> Generator[None]:
    """PGHOST, PGOPTIONS… of a developer's shell would change what psycopg does."""
    kept = {name: os.environ[name] for name in list(os.environ) if re.fullmatch("PG[A-Z]+", name)}
    for name in kept:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)
