"""The servers and workers of a scenario: started, filled with what it needs, and ended.

What is sent to them is in load.py, who is compared with whom in scenarios.py.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import psycopg
from benchmarks.app_spec import AppSpec, Protection
from benchmarks.apps import LEDGER_TABLE
from benchmarks.claims_by_size import version
from benchmarks.client_calls import ALONE
from benchmarks.collector import VARIABLE, Collector
from benchmarks.handlers import HOLD
from benchmarks.load_plan import BODY, Outcome, Plan, key_of
from benchmarks.processes import (
    Answering,
    LoadGenerator,
    Worker,
    answering,
    load_generator,
    python_worker,
    worker,
)
from benchmarks.scenarios import FIRST, Contender, Load, Scenario, named
from benchmarks.server import Servers, free_port, private_servers

from replayfloor.server.stores.migrate import migrate

POOL: Final = 2000
"""Keys that are replayed: many enough that no two connections meet at one, few enough to be made
in a second."""

FILL_CONNECTIONS: Final = 16
SETTLE_S: Final = 0.5
"""For what nobody waits for, the release of a lock, and for the request that stays in flight."""

HOST: Final = "127.0.0.1"
THREADS: Final = 8
"""Of the gunicorn worker."""

FLOOR_SCHEMA: Final = Path(__file__).parent / "floor" / "schema.sql"


@dataclass(frozen=True, slots=True)
class Contestant:
    """One that takes turns: `pids` are whose CPU time counts, the last of them the one at work."""

    pids: tuple[int, ...]
    run: Callable[[int, float], Outcome]
    """Takes connections and seconds."""


@dataclass(slots=True)
class Bench:
    """Servers and a load generator, for as long as the benchmark runs."""

    servers: Servers
    load: LoadGenerator
    folder: Path
    collector: Collector
    _numbers: count[int]

    def about(self) -> dict[str, object]:
        """Return what the figures depend on."""
        return {
            "measured": datetime.now(UTC).isoformat(timespec="minutes"),
            "postgres": version(self.servers.postgres.url),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "collector": self.collector,
            "load": round(os.getloadavg()[0], 1),
        }

    @contextmanager
    def contenders(self, scenario: Scenario) -> Generator[dict[str, Contestant]]:
        """Start what takes part, and bring it into the state that is measured."""
        with ExitStack() as stack:
            if scenario.kind == "client":
                yield self._callers(scenario, stack)
                return
            found: dict[str, Contestant] = {}
            for name in scenario.contenders:
                served = stack.enter_context(self._worker(scenario, name))
                plan = Plan(
                    served.port,
                    connections=1,
                    expected=scenario.expected(name),
                    keys=scenario.keys,
                    pids=served.pids,
                )
                found[name] = self.prepare(plan, scenario.load, served, stack)
            yield found

    def _run(self, plan: Plan, connections: int, seconds: float) -> Outcome:
        return self.load.run(replace(plan, connections=connections, seconds=seconds))

    def _callers(self, scenario: Scenario, stack: ExitStack) -> dict[str, Contestant]:
        """Start a bare application, and a caller for each contender."""
        port = free_port()
        bare = python_worker(AppSpec().as_json(), port)
        stack.enter_context(worker(bare, port))
        sqlite = f"sqlite:///{self.folder / f'{next(self._numbers)}.db'}"
        journals = {"bare": ALONE, "ours": sqlite if scenario.receipts == "sqlite" else "memory:"}
        found = {}
        for name, journal in journals.items():
            command = [sys.executable, "-m", "benchmarks.client_calls", journal]
            process = stack.enter_context(answering([*command, f"http://{HOST}:{port}/payments"]))
            found[name] = Contestant((process.pid,), partial(_called, process))
        return found

    @contextmanager
    def _worker(self, scenario: Scenario, contender: Contender) -> Generator[Worker]:
        spec = self._spec(scenario, contender)
        port = free_port()
        asgi = scenario.kind == "asgi"
        command = python_worker(spec.as_json(), port) if asgi else gunicorn(port)
        environment = {"BENCH_APP": spec.as_json(), VARIABLE: self.collector}
        with worker(command, port, environment) as served:
            yield served

    def fresh_spec(self, protection: Protection) -> AppSpec:
        """Make a Postgres and a Redis database for first requests, and say where they are."""
        (scenario,) = named(["first"])
        return self._spec(scenario, protection)

    def _spec(self, scenario: Scenario, contender: Contender) -> AppSpec:
        """Make the databases of a contender, and say where they are."""
        if contender == "bare":
            return AppSpec()
        number = next(self._numbers)
        if scenario.receipts == "sqlite":
            return AppSpec(contender, f"sqlite:///{self.folder / f'{number}.db'}")
        url = self.servers.postgres.database(f"{contender}_{number}")
        if contender == "ours":
            migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            if contender == "floor":
                connection.execute(FLOOR_SCHEMA.read_bytes())
            if scenario.atomic:
                connection.execute(LEDGER_TABLE)
        lock = "local" if scenario.lock == "local" else self.servers.redis.database()
        return AppSpec(contender, url, lock, scenario.atomic)

    def prepare(
        self, plan: Plan, load: Load, served: Worker, stack: ExitStack, pool: int = POOL
    ) -> Contestant:
        """Bring a worker into the state that is measured; return it ready to take turns.

        `pool` is how many keys are replayed.
        """
        plan = replace(plan, seed=secrets.token_hex(8))
        if load == "replay":
            plan = replace(plan, pool=pool)
            fill = replace(
                plan, expected=FIRST, requests=pool, connections=FILL_CONNECTIONS, warm_up_s=0.0
            )
            self.load.run(fill)
            time.sleep(SETTLE_S)
        if load == "in-flight" and plan.expected != FIRST:
            stack.enter_context(held(served, key_of(plan.seed, 0), quoted=not plan.bare_keys))
        return Contestant(served.pids, partial(self._run, plan))


def _called(process: Answering, _connections: int, seconds: float) -> Outcome:
    return process.ask(str(seconds))


@contextmanager
def held(served: Worker, key: str, *, quoted: bool) -> Generator[None]:
    """Keep a key in flight: the handler of its first request waits until /release is called."""
    name = f'"{key}"' if quoted else key
    with socket.create_connection((HOST, served.port)) as connection:
        connection.sendall(
            f"POST /payments HTTP/1.1\r\nHost: {HOST}:{served.port}\r\n{HOLD}: 1\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\nIdempotency-Key: {name}\r\n\r\n".encode()
            + BODY
        )
        time.sleep(SETTLE_S)
        try:
            yield
        finally:
            served.ask("/release")


def gunicorn(
    port: int, app: str = "benchmarks.wsgi_app:application", python: str = sys.executable
) -> list[str]:
    """Return the command of one gunicorn worker with threads."""
    return [
        python, "-m", "gunicorn", "--worker-class", "gthread", "--workers", "1",
        "--threads", str(THREADS), "--keep-alive", "600", "--bind", f"{HOST}:{port}",
        "--log-level", "warning", app,
    ]  # fmt: skip


@contextmanager
def open_bench(collector: Collector = "default") -> Generator[Bench]:
    """Start the servers and the load generator; end them at the end.

    `collector` is that of the workers of scenarios.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        private_servers() as servers,
        load_generator() as load,
    ):
        yield Bench(servers, load, Path(folder), collector, count(1))
