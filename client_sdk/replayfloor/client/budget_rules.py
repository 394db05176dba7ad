"""The retry budget: so many retries may fail at one origin before further ones are refused.

When a provider is down, every call that retries multiplies the load that keeps it down. A bucket
of tokens per origin stops that: a retry takes some, a success brings some back, and whoever finds
too few makes no retry. First attempts are never refused. The numbers are those of botocore's
standard mode (botocore.retries.quota and .standard, 1.44). Pure; the buckets are in `budget.py`.
"""

from __future__ import annotations

from typing import Final

from replayfloor.core.effects import Effect
from replayfloor.core.values import frozen

CAPACITY: Final = 500
COST: Final = 14
"""Of a retry after a failure."""
COST_THROTTLED: Final = 5
"""Of a retry after the server said "later": it is alive and has asked for it."""
REFUND: Final = 1
"""For a first attempt that succeeds. A retry that succeeds brings back what it took."""


@frozen
class Spend(Effect[bool]):
    """Take tokens for a retry at an origin; False, and nothing taken, if there are too few."""

    origin: str
    cost: int


@frozen
class Refund(Effect[None]):
    """Bring tokens back after a success."""

    origin: str
    tokens: int
