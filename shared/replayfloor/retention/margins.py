"""How long before a provider forgets a key our client stops sending. The numbers, and why."""

from __future__ import annotations

from typing import Final

from replayfloor.retention.durations import exact_us, seconds

MARGIN_MIN_S: Final = 60.0
"""What the margin has to cover: the write of the request, queueing at the provider's edge, and the
disagreement of two clocks that are kept by NTP. Each is seconds; together, a minute is ample."""

MARGIN_SHARE: Final = 0.02
"""Of the retention: providers publish rounded numbers, and delete in runs of their own cadence."""

MARGIN_SHARE_MAX: Final = 0.5
"""The default margin takes no more, so that a retention of seconds (in tests) leaves time to send.
Such a margin covers less than MARGIN_MIN_S asks for: do not run payments on it."""


def default_margin_s(retention_s: float) -> float:
    """Return the margin for a provider's key retention, both in seconds; raises PolicyError."""
    wanted_s = max(MARGIN_MIN_S, MARGIN_SHARE * retention_s)
    margin_s = min(wanted_s, MARGIN_SHARE_MAX * retention_s)
    return seconds(exact_us(margin_s, "a margin"))
