"""Boundaries of the histograms. A backend that has exponential histograms needs none of them."""

from __future__ import annotations

from typing import Final

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 60 * _MINUTE_S
_DAY_S: Final = 24 * _HOUR_S

ELAPSED_BOUNDARIES_S: Final[tuple[float, ...]] = (
    *(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    *(_MINUTE_S, 3 * _MINUTE_S, 10 * _MINUTE_S, 30 * _MINUTE_S),
    *(_HOUR_S, 3 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S),
    *(_DAY_S, 2 * _DAY_S, 3 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S, 30 * _DAY_S, 35 * _DAY_S),
)
"""Seconds since the first attempt. Each is at most about three times the one before, so that a
quantile is known to that factor over the whole tail; the retentions that providers publish (24
hours, 7 days, 30 days) are boundaries, so that the share beyond them can be read off exactly; the
last is beyond the longest of them. The SDK's own end at 10 000 and would call every retry of a
night infinite."""

SHARE_BOUNDARIES: Final[tuple[float, ...]] = (
    *(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
    *(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
)
"""Of the retention. Fine near the end, where an alert is set: most retries come at once, and those
at risk use most of the retention. Nothing is sent at 1 or later."""
