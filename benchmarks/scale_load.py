"""The parts of the scale benchmark that send load to workers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from benchmarks.app_spec import AppSpec
from benchmarks.contenders import Bench
from benchmarks.cpu import resident_bytes
from benchmarks.load_plan import Outcome, Plan
from benchmarks.processes import Worker, python_worker, worker
from benchmarks.scenarios import FIRST, named
from benchmarks.server import free_port

CONTENDERS: Final = ("bare", "ours")
BUSY: Final = 64
"""Connections to each worker where the number of workers is what is varied."""

START_S: Final = 2.0
"""For each worker after the first."""

SAMPLES: Final = 50
"""How often memory is looked at."""

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a plot.

    Attributes:
        line: which of the plot's lines it belongs to.
        x: connections, workers, receipts or keys.
        y: microseconds of worker CPU a request; for memory, MiB; for size, milliseconds.
        more: requests a second; for memory, the same.
        p99_ms: of the times to an answer, or 0.
    """

    line: str
    x: float
    y: float
    more: float = 0.0
    p99_ms: float = 0.0


def by_concurrency(
    bench: Bench, concurrency: Sequence[int], rounds: int, seconds: float
) -> list[Point]:
    """Send first requests over ever more connections, to the bare application and to ours."""
    points = []
    (scenario,) = named(["first"])
    with bench.contenders(scenario) as contestants:
        for connections in concurrency:
            outcomes: dict[str, list[Outcome]] = {name: [] for name in contestants}
            for _ in range(rounds):
                for name, one in contestants.items():
                    outcomes[name].append(one.run(connections, seconds))
            points += [point(name, connections, found) for name, found in outcomes.items()]
            tell(points[-1])
    return points


def by_workers(bench: Bench, workers: Sequence[int], rounds: int, seconds: float) -> list[Point]:
    """Send first requests to ever more workers that share a port, a Postgres and a Redis."""
    points = []
    for number in workers:
        with ExitStack() as stack:
            plans = {}
            for name in CONTENDERS:
                spec = AppSpec() if name == "bare" else bench.fresh_spec("ours")
                served = stack.enter_context(shared(spec, number))
                plans[name] = Plan(
                    served.port, BUSY * number, FIRST, "fresh", seconds, pids=served.pids
                )
            outcomes: dict[str, list[Outcome]] = {name: [] for name in plans}
            for _ in range(rounds):
                for name, plan in plans.items():
                    outcomes[name].append(bench.load.run(plan))
        points += [point(name, number, found) for name, found in outcomes.items()]
        tell(points[-1])
    return points


@contextmanager
def shared(spec: AppSpec, number: int) -> Generator[Worker]:
    """Start a uvicorn of so many workers."""
    port = free_port()
    command = [*python_worker(spec.as_json(), port), str(number)]
    with worker(command, port) as served:
        # The first one answers already; the others are still importing.
        time.sleep(START_S * (number - 1))
        yield served


def memory(bench: Bench, keys: int) -> list[Point]:
    """Send first requests with ever new keys to one worker, and look at its memory."""
    spec = bench.fresh_spec("ours")
    port = free_port()
    points = []
    with worker(python_worker(spec.as_json(), port), port) as served:
        plan = Plan(port, BUSY, FIRST, "pool", pids=served.pids, warm_up_s=0.0)
        step = max(1, keys // SAMPLES)
        sent = 0
        while sent < keys:
            # A pool of its own for each step: every key is sent once.
            outcome = bench.load.run(replace(plan, seed=f"memory {sent}", pool=step, requests=step))
            sent += step
            used = resident_bytes(served.pids) / MIB
            points.append(Point("ours", sent, used, outcome.per_second, outcome.p99_ms))
            tell(points[-1])
    return points


def point(name: str, x: float, found: Sequence[Outcome]) -> Point:
    """Return the medians of one contender's rounds."""
    return Point(
        name,
        x,
        median(outcome.worker_cpu_us for outcome in found),
        median(outcome.per_second for outcome in found),
        median(outcome.p99_ms for outcome in found),
    )


def tell(latest: Point) -> None:
    """Say how far it is."""
    load = os.getloadavg()[0]
    print(f"{latest.line} at {latest.x:g}: {latest.y:.1f}, load {load:.1f}", file=sys.stderr)
