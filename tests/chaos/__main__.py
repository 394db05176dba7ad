"""Chaos on real processes: `PYTHONPATH=tests python -m chaos --seconds 600 --seed 7`.

Exit status 1 if any promise was broken, 0 if none was. What it does is in docs/chaos.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from chaos.broken import PROTECTIONS
from chaos.plan import CLIENTS, Plan
from chaos.run import play

SECONDS = 600.0
SEED = 1


def main() -> int:
    """Run, print, and write the report."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=SEED, help="draws the faults")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--report", type=Path, help="where the JSON goes; default: the temp folder")
    parser.add_argument(
        "--without", default="", choices=["", *PROTECTIONS], help="take one protection away"
    )
    given = parser.parse_args()
    plan = Plan(seed=given.seed, seconds=given.seconds, clients=given.clients, broken=given.without)
    path = given.report or Path(tempfile.gettempdir()) / f"replayfloor-chaos-{plan.seed}.json"
    console = Console()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        report = asyncio.run(play(plan, Path(folder)))
    report.write(path)
    report.show(console)
    console.print(f"The report is in {path}", soft_wrap=True)
    return 1 if report.verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
