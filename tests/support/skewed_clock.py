"""A wall clock that is wrong, for a whole interpreter. To be set before other modules are imported.

Monotonic clocks stay as they are: a machine whose clock is wrong still counts seconds.
"""

from __future__ import annotations

import datetime as datetime_module
import time
from datetime import datetime, timedelta, tzinfo
from typing import Self


def skew(seconds: float) -> None:
    """Let the wall clock of this interpreter be ahead of the machine's (behind, if negative)."""
    if not seconds:
        return
    # Its C part checks, when it is imported, that `datetime` is the one it was compiled for.
    import psycopg  # noqa: F401

    real, real_ns = time.time, time.time_ns
    offset = timedelta(seconds=seconds)

    class SkewedDatetime(datetime):
        """`datetime` with another opinion of what time it is."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + offset

        @classmethod
        def utcnow(cls) -> Self:
            return super().now(datetime_module.UTC).replace(tzinfo=None) + offset

    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + round(seconds * 1e9)
    datetime_module.datetime = SkewedDatetime  # type: ignore[misc]
