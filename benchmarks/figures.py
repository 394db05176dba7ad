"""From the times of blocks to figures: percentiles, ratios, and a table. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Final

NS_PER_MS: Final = 1_000_000
P99: Final = 0.99


def percentile(times: Sequence[int], share: float) -> int:
    """Return the smallest of the times that `share` of all do not exceed (nearest rank)."""
    return sorted(times)[max(0, ceil(share * len(times)) - 1)]


@dataclass(frozen=True, slots=True)
class Blocks:
    """One operation, at one number of connections, on one database: a figure for each block, in ns.

    Of several blocks the figure in the middle counts: what disturbs the machine for a second
    spoils the block it falls into, and no other one.
    """

    medians: tuple[int, ...]
    p99s: tuple[int, ...]
    operations: int

    @classmethod
    def of(cls, blocks: Sequence[Sequence[int]]) -> Blocks:
        """Reduce each block's times to its median and its 99th percentile."""
        return cls(
            tuple(percentile(block, 0.5) for block in blocks),
            tuple(percentile(block, P99) for block in blocks),
            sum(map(len, blocks)),
        )

    @property
    def median_ms(self) -> float:
        """The median of the blocks' medians."""
        return median(self.medians) / NS_PER_MS

    @property
    def p99_ms(self) -> float:
        """The median of the blocks' 99th percentiles."""
        return median(self.p99s) / NS_PER_MS

    def as_json(self) -> dict[str, object]:
        """Return every block's figures, in milliseconds."""
        return {
            "median_ms": round(self.median_ms, 4),
            "p99_ms": round(self.p99_ms, 4),
            "block_medians_ms": [round(ns / NS_PER_MS, 4) for ns in self.medians],
            "block_p99s_ms": [round(ns / NS_PER_MS, 4) for ns in self.p99s],
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """One operation on the small, the large and a second small database.

    `control` shows what the machine alone makes of two databases that do not differ: a ratio of
    large to small says no more than that.
    """

    connections: int
    operation: str
    small: Blocks
    large: Blocks
    control: Blocks

    @property
    def operations(self) -> int:
        """How many of them each database had to do."""
        return self.small.operations

    @property
    def median_ratio(self) -> float:
        """How much slower the large one is in the median."""
        return self.large.median_ms / self.small.median_ms

    @property
    def p99_ratio(self) -> float:
        """How much slower the large one is in the 99th percentile."""
        return self.large.p99_ms / self.small.p99_ms

    @property
    def control_ratios(self) -> tuple[float, float]:
        """The same of the second small one: median, 99th percentile."""
        return (
            self.control.median_ms / self.small.median_ms,
            self.control.p99_ms / self.small.p99_ms,
        )

    def beyond(self, limit: float) -> list[str]:
        """Say which ratios are above the limit."""
        ratios = (("median", self.median_ratio), ("p99", self.p99_ratio))
        return [
            f"{self.operation} at {self.connections}: {name} {ratio:.2f} times the small one's"
            for name, ratio in ratios
            if ratio > limit
        ]

    def as_json(self) -> dict[str, object]:
        """Return every figure, in milliseconds, and the ratios."""
        return {
            "connections": self.connections,
            "operation": self.operation,
            "median_ratio": round(self.median_ratio, 3),
            "p99_ratio": round(self.p99_ratio, 3),
            "control_ratios": [round(ratio, 3) for ratio in self.control_ratios],
            "small": self.small.as_json(),
            "large": self.large.as_json(),
            "control": self.control.as_json(),
        }


HEAD: Final = (
    "| at | operation   | median: small | large | ratio | control"
    " |   p99: small | large | ratio | control |\n"
    "|---:|-------------|--------------:|------:|------:|--------:"
    "|-------------:|------:|------:|--------:|"
)


def table(compared: Sequence[Compared]) -> str:
    """Return the table of a report, in Markdown; times in milliseconds."""
    return "\n".join([HEAD, *map(_line, compared)])


def _line(one: Compared) -> str:
    control_median, control_p99 = one.control_ratios
    return (
        f"| {one.connections:2d} | {one.operation:<11} "
        f"| {one.small.median_ms:13.2f} | {one.large.median_ms:5.2f} "
        f"| {one.median_ratio:5.2f} | {control_median:7.2f} "
        f"| {one.small.p99_ms:12.2f} | {one.large.p99_ms:5.2f} "
        f"| {one.p99_ratio:5.2f} | {control_p99:7.2f} |"
    )
