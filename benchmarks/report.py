"""The table of a throughput run, and its figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.ratios import Measured, judged
from rich.console import Console
from rich.table import Table

COLUMNS = (
    "path", "at", "bare/s", "ours/s", "of bare", "goal", "short by", "of floor", "goal",
    "short by", "CPU/bare", "CPU/floor", "us bare", "floor", "ours", "p99 ms",
)  # fmt: skip
WIDTH = 160
"""Columns of a terminal that the table needs; a narrower one would break every figure in two."""


def report(about: Mapping[str, object], measured: Sequence[Measured]) -> int:
    """Print what was measured; return how many goals were missed."""
    console = Console(width=WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    table = Table(*COLUMNS)
    missed = 0
    for one in measured:
        cells, misses = row(one, judged=judged(measured, one))
        table.add_row(*cells)
        missed += misses
    console.print(table)
    if missed:
        console.print(f"[red]{missed} goals are missed[/red]")
    return missed


def row(one: Measured, *, judged: bool) -> tuple[list[str], int]:
    """Return a row's cells, and how many of its goals were missed."""
    scenario = one.scenario
    goal = scenario.goal if judged else None
    floor_goal = scenario.floor_goal if judged else None
    to_bare, to_floor = one.ratio("bare"), one.ratio("floor")
    short = scenario.short_of_goal(to_bare) if judged else 0.0
    floor_short = max(0.0, 1 - to_floor / floor_goal) if to_floor and floor_goal else 0.0
    floor_us = f"{one.cpu_us('floor'):.0f}" if to_floor is not None else ""
    cells = [
        scenario.name,
        str(one.connections),
        f"{one.throughput('bare'):.0f}",
        f"{one.throughput('ours'):.0f}",
        number(to_bare),
        goal_of(one, goal),
        marked(short, goal),
        number(to_floor),
        goal_of(one, floor_goal),
        marked(floor_short, floor_goal),
        number(one.cpu_ratio("bare")),
        number(one.cpu_ratio("floor")),
        f"{one.cpu_us('bare'):.0f}",
        floor_us,
        f"{one.cpu_us('ours'):.0f}",
        f"{one.p99_ms('ours'):.1f}",
    ]
    return cells, bool(short) + bool(floor_short)


def goal_of(one: Measured, goal: float | None) -> str:
    """Return a goal for a cell: of a client's time it is the most, of a throughput the least."""
    sign = "≤" if one.scenario.kind == "client" else "≥"
    return "" if goal is None else f"{sign} {goal:.2f}"


def number(ratio: float | None) -> str:
    """Return a ratio for a cell."""
    return "" if ratio is None else f"{ratio:.2f}"


def marked(short: float, goal: float | None) -> str:
    """Return by how much a goal is missed, or that it is met."""
    if goal is None:
        return ""
    return f"[red]{short:.0%}[/red]" if short else "[green]met[/green]"


def write_json(target: Path, about: Mapping[str, object], measured: Sequence[Measured]) -> None:
    """Write every outcome of every round."""
    whole = {"about": dict(about), "results": [one.as_json() for one in measured]}
    target.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
