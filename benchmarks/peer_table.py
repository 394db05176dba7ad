"""The comparison with the peers as a Markdown table, for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.load_plan import Outcome
from benchmarks.scenarios import Load

TITLES: Final[dict[Load, str]] = {
    "first": "first request",
    "replay": "replay",
    "in-flight": "duplicate in flight",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One contender at one kind of load, beside the bare application in the same rounds."""

    framework: str
    name: str
    load: Load
    outcomes: list[Outcome]
    bare: list[Outcome]

    @property
    def ratio(self) -> float:
        """Its throughput to the bare application's: the median of the ratios within a round."""
        rounds = zip(self.outcomes, self.bare, strict=True)
        return median(one.per_second / bare.per_second for one, bare in rounds)

    @property
    def cpu_ratio(self) -> float:
        """The same for requests to a second of worker CPU."""
        rounds = zip(self.outcomes, self.bare, strict=True)
        return median(bare.worker_cpu_us / one.worker_cpu_us for one, bare in rounds)

    def is_ahead(self, every: Sequence[Compared]) -> bool:
        """Say whether it is not ours, and at least as fast as ours."""
        return self.name != "ours" and any(
            ours.ratio <= self.ratio
            for ours in every
            if (ours.name, ours.framework, ours.load) == ("ours", self.framework, self.load)
        )


def table(about: Mapping[str, object], compared: Sequence[Compared]) -> str:
    """Return the table: a contender a line, of the bare application's throughput, and its CPU."""
    loads: list[Load] = [load for load in TITLES if any(one.load == load for one in compared)]
    lines = [
        ", ".join(f"{name} {value}" for name, value in about.items()),
        "",
        "| on | | " + " | ".join(f"{TITLES[load]} | CPU" for load in loads) + " |",
        "|---|---|" + "---:|---:|" * len(loads),
    ]
    cells = {(one.framework, one.name, one.load): one for one in compared}
    for framework, name in dict.fromkeys((one.framework, one.name) for one in compared):
        found = [cells[framework, name, load] for load in loads]
        title = f"**{name}**" if name == "ours" else name
        line = " | ".join(f"{cell(one, compared)} | {one.cpu_ratio:.2f}" for one in found)
        lines.append(f"| {framework} | {title} | {line} |")
    return "\n".join(lines)


def cell(one: Compared, compared: Sequence[Compared]) -> str:
    """Return a ratio, marked if ours is not ahead of it."""
    return f"{one.ratio:.2f} (ours is not ahead)" if one.is_ahead(compared) else f"{one.ratio:.2f}"
