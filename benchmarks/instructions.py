"""How many instructions a request takes inside one process. See benchmarks/README.md.

`python -m benchmarks.instructions`, from the project's folder; needs valgrind. Unlike a time, the
count hears nothing of what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from benchmarks.app_spec import AppSpec, Protection
from benchmarks.contenders import FLOOR_SCHEMA
from benchmarks.processes import ROOT, BenchmarkFailed
from benchmarks.server import Servers, private_servers
from rich.console import Console
from rich.table import Table

from replayfloor.server.stores.migrate import migrate

LOADS: Final = ("keyless", "first", "replay", "in-flight")
RUN_S: Final = 600.0
"""For one process under valgrind, which is some fifty times slower."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions for one request."""

    load: str
    protection: str
    instructions: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, report; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--paths", nargs="+", choices=LOADS, default=list(LOADS), help="default: all")
    add("--requests", type=int, default=200, help="that are counted (%(default)s)")
    add("--at-a-time", type=int, default=1, help="tasks that send them (%(default)s)")
    add(
        "--stores",
        choices=["dict", "real"],
        default="dict",
        help="dict: the middleware alone, repeatable to a thousandth. real: with drivers,"
        " a Postgres and a Redis, and the floor beside it; less repeatable (%(default)s)",
    )
    add("--keep", type=Path, help="folder for callgrind's files, to look at with kcachegrind")
    add("--json", type=Path, help="write the counts to this file")
    given = parser.parse_args(arguments)
    if shutil.which("valgrind") is None or shutil.which("vgdb") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 2
    try:
        counted = count_all(given.paths, given.requests, given.at_a_time, given.stores, given.keep)
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    report(counted)
    if given.json is not None:
        found = [
            {"path": c.load, "app": c.protection, "instructions": c.instructions} for c in counted
        ]
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


def count_all(
    loads: Sequence[str], requests: int, at_a_time: int, stores: str, keep: Path | None
) -> list[Counted]:
    """Count every load on every application, each in a process of its own."""
    protections: tuple[Protection, ...] = ("bare", "ours")
    found = []
    with ExitStack() as stack:
        servers = None
        if stores == "real":
            protections = ("bare", "floor", "ours")
            servers = stack.enter_context(private_servers())
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for load in loads:
            for protection in protections:
                target = folder / f"callgrind.{load}.{protection}"
                spec = spec_of(servers, protection, f"{protection}_{load.replace('-', '_')}")
                total = count_one(spec, load, requests, at_a_time, target)
                found.append(Counted(load, protection, total / requests))
    return found


def spec_of(servers: Servers | None, protection: Protection, database: str) -> AppSpec:
    """Return an application, on a database of its own if there are servers."""
    if servers is None or protection == "bare":
        return AppSpec(protection)
    url = servers.postgres.database(database)
    if protection == "floor":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(FLOOR_SCHEMA.read_bytes())
    else:
        migrate(url)
    return AppSpec(protection, url, servers.redis.database())


def count_one(spec: AppSpec, load: str, requests: int, at_a_time: int, target: Path) -> int:
    """Run the requests under callgrind; return the instructions of all. Raises BenchmarkFailed."""
    command = [
        "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={target}",
        sys.executable, "-m", "benchmarks.in_process", spec.as_json(), load, str(requests),
        str(at_a_time),
    ]  # fmt: skip
    # Without a fixed seed, sets and dictionaries lie differently in memory each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "BENCH_CALLGRIND": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=RUN_S,
        check=False,
    )  # fmt: skip
    total = re.search(r"^totals: (\d+)", target.read_text() if target.exists() else "", re.M)
    if done.returncode or total is None:
        raise BenchmarkFailed(f"{load} {spec.protection}:\n{done.stderr[-3000:]}")
    return int(total[1])


def report(counted: Sequence[Counted]) -> None:
    """Print the counts, and what each application adds to the bare one."""
    table = Table("path", "app", "instructions a request", "added to bare", "of bare")
    bare = {one.load: one.instructions for one in counted if one.protection == "bare"}
    for one in counted:
        table.add_row(
            one.load,
            one.protection,
            f"{one.instructions:,.0f}",
            f"{one.instructions - bare[one.load]:,.0f}",
            f"{bare[one.load] / one.instructions:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
