"""What stands between a key's age and its receipt's end. Numbers, and why; milliseconds. Pure."""

from __future__ import annotations

from typing import Final

MARGIN_MS: Final = 300_000
"""Five minutes: the difference of clocks that Kerberos (RFC 4120, 8.2) and webhook signatures allow
for."""

MARGIN_SHARE: Final = 10
"""The margin is at most a tenth of the retention: otherwise a test's retention of seconds would
leave no time for a first request."""


def margin_ms(retention_ms: int) -> int:
    """Return how long before its retention has passed a key is too old to be executed."""
    return min(MARGIN_MS, retention_ms // MARGIN_SHARE)


def skew_ms(retention_ms: int) -> int:
    """Return how far a sender's clock may be ahead of ours: less than the margin.

    A key from the future is that much older than it says, so the margin has to cover it, and be
    there still for the way from a request's arrival to its claim, and for the difference between
    this host's clock and the database's. So a key that is young enough to be executed is never
    older than its receipt.
    """
    return margin_ms(retention_ms) * 4 // 5
