"""What a first request costs Postgres: commits, log and disk. See benchmarks/README.md.

`python -m benchmarks.capacity`, from the project's folder. The README says what follows from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

import psycopg
from benchmarks.contenders import Bench, open_bench
from benchmarks.load_plan import Outcome, Plan
from benchmarks.processes import BenchmarkFailed, python_worker, worker
from benchmarks.scenarios import FIRST
from benchmarks.server import free_port

SETTLED: Final = Path(__file__).with_name("capacity.sql").read_bytes()


@dataclass(frozen=True, slots=True)
class Books:
    """What Postgres has counted so far: transactions, bytes of log, flushes of it, receipts and
    what they take on disk, index included."""

    commits: int
    wal_bytes: int
    wal_syncs: int
    receipts: int
    stored_bytes: int

    def since(self, earlier: Books) -> Books:
        """Return what came since then."""
        pairs = zip(asdict(self).values(), asdict(earlier).values(), strict=True)
        return Books(*(now - was for now, was in pairs))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, report; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--connections", nargs="+", type=int, default=[1, 16, 64, 256], help="(%(default)s)")
    add("--seconds", type=float, default=5.0, help="of load at each (%(default)s)")
    add("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    lines = []
    try:
        with open_bench() as bench:
            print(", ".join(f"{name} {value}" for name, value in bench.about().items()))
            for connections in given.connections:
                outcome, books = measure(bench, connections, given.seconds)
                lines.append(line(connections, outcome, books))
                print(", ".join(f"{name} {value}" for name, value in lines[-1].items()))
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    if given.json is not None:
        given.json.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    return 0


def measure(bench: Bench, connections: int, seconds: float) -> tuple[Outcome, Books]:
    """Send first requests to one worker on a database of its own."""
    spec = bench.fresh_spec("ours")
    port = free_port()
    with worker(python_worker(spec.as_json(), port), port) as served:
        plan = Plan(port, connections, FIRST, "fresh", seconds, pids=served.pids)
        bench.load.run(plan)
        before = books(spec.receipts)
        outcome = bench.load.run(plan)
        return outcome, books(spec.receipts).since(before)


def books(url: str) -> Books:
    """Read what Postgres has counted."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(SETTLED).fetchone()
    return Books(*cast("tuple[int, int, int, int, int]", row))


def line(connections: int, outcome: Outcome, spent: Books) -> dict[str, object]:
    """Return what is reported of one number of connections."""
    requests = max(1, spent.receipts)
    return {
        "connections": connections,
        "requests a second": round(outcome.per_second),
        "commits a request": round(spent.commits / requests, 3),
        "flushes a request": round(spent.wal_syncs / requests, 3),
        "log bytes a request": round(spent.wal_bytes / requests),
        "bytes kept a receipt": round(spent.stored_bytes / requests),
    }


if __name__ == "__main__":
    sys.exit(main())
