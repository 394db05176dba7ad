"""The plots of the scale benchmark. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.scale_load import Point
from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Axes:
    """How a part is drawn. `per_second` adds the throughput as a second panel."""

    title: str
    x: str
    y: str
    logarithmic: bool
    per_second: bool = True


AXES: Final = {
    "concurrency": Axes(
        "First request, Postgres + Redis, one worker", "connections", "µs of CPU a request", True
    ),
    "workers": Axes(
        "First request, 64 connections a worker", "workers", "µs of CPU a request", False
    ),
    "size": Axes(
        "Claims among receipts, one connection", "receipts in the table", "ms, median", True, False
    ),
    "memory": Axes("Memory of a worker", "different keys so far", "MiB resident", False, False),
}
SIZE_INCHES: Final = (7.0, 3.4)
DPI: Final = 100
HEADROOM: Final = 1.1


def draw(part: str, points: Sequence[Point], target: Path) -> None:
    """Write the plot of a part."""
    how = AXES[part]
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    panels = figure.subplots(1, 2 if how.per_second else 1, squeeze=False)
    figure.suptitle(how.title)
    for number, panel in enumerate(panels[0]):
        for line in dict.fromkeys(point.line for point in points):
            own = [point for point in points if point.line == line]
            ys = [point.more if number else point.y for point in own]
            panel.plot([point.x for point in own], ys, marker=".", label=line)
        if how.logarithmic:
            panel.set_xscale("log")
        # Above the highest point, too: a level line would lie on the frame.
        panel.set_ylim(0, panel.get_ylim()[1] * HEADROOM)
        panel.set_xlabel(how.x)
        panel.set_ylabel("requests a second" if number else how.y)
        panel.grid(visible=True, alpha=0.3)
        panel.legend()
    figure.savefig(target, dpi=DPI)
