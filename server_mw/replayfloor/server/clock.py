"""The wall clock of the middlewares, in one place, so that a test can have another one."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Return the time of this host in ms since 1970."""
    return time.time_ns() // 1_000_000
