"""From times and shares to places on the chart: both axes are logarithmic. Pure arithmetic.

A retention of days and a first retry after a second are five orders apart, and so are the half of
the operations and the one in a million that the retention is for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MS, _S = 10**6, 10**9
_MIN, _H, _D = 60 * _S, 3_600 * _S, 86_400 * _S

_TICKS: Final = (
    _MS,
    10 * _MS,
    100 * _MS,
    _S,
    10 * _S,
    _MIN,
    10 * _MIN,
    _H,
    6 * _H,
    _D,
    7 * _D,
    30 * _D,
    365 * _D,
    3_650 * _D,
)

_SPACE: Final = 1.6
"""Times the longest time: some room to the right of the last line."""

_SHARE_DECADES_MIN: Final = 2
"""Down to one in a hundred, also if there are fewer: p99 has a place in every chart."""


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Times in ns from `least_ns` to `most_ns` on places from `left` to `right`, in pixels."""

    least_ns: int
    most_ns: int
    left: float
    right: float

    def place(self, ns: float) -> float:
        """Return where a time is; what is shorter or longer is at the edge."""
        within = min(max(ns, self.least_ns), self.most_ns)
        part = math.log(within / self.least_ns) / math.log(self.most_ns / self.least_ns)
        return self.left + part * (self.right - self.left)

    def time(self, place: float) -> int:
        """Return the time in ns that is at a place."""
        part = (place - self.left) / (self.right - self.left)
        return int(self.least_ns * (self.most_ns / self.least_ns) ** part)

    @property
    def ticks(self) -> Iterator[int]:
        """The times to name on the axis, in ns."""
        return (ns for ns in _TICKS if self.least_ns <= ns <= self.most_ns)


def time_scale(times_ns: Sequence[int], left: float, right: float) -> TimeScale:
    """Return a scale that shows every one of the times; charts that share it can be compared."""
    longest_ns = max(times_ns, default=0)
    # A retention of seconds is one of tests.
    least_ns = _S if longest_ns >= _MIN or longest_ns == 0 else _MS
    return TimeScale(least_ns, max(int(longest_ns * _SPACE), 60 * least_ns), left, right)


@dataclass(frozen=True, slots=True)
class ShareScale:
    """Shares of `count` operations on places from `top` (all) to `low` (one); none is at `base`."""

    count: int
    top: float
    low: float
    base: float

    @property
    def decades(self) -> int:
        """How many powers of ten there are between all and the least share shown."""
        return max(_SHARE_DECADES_MIN, math.ceil(math.log10(max(self.count, 1))))

    def place(self, share: float) -> float:
        """Return where a share is."""
        if share <= 0:
            return self.base
        return self.top + (self.low - self.top) * min(-math.log10(share) / self.decades, 1)

    @property
    def ticks(self) -> Iterator[float]:
        """The shares to name on the axis."""
        return (10.0**-power for power in range(self.decades + 1))
