"""The retry budget: so many retries may fail at one origin before further ones are refused.

When a provider is down, every call that retries multiplies the load that keeps it down. A bucket
of tokens per origin stops that: a retry takes some, a success brings some back, and whoever finds
too few makes no retry. First attempts are never refused. The numbers are those of botocore's
standard mode (botocore.retries.quota and .standard, 1.44).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from replayfloor.core.effects import Effect
from replayfloor.core.errors import ConfigurationError

CAPACITY: Final = 500
COST: Final = 14
"""Of a retry after a failure."""
COST_THROTTLED: Final = 5
"""Of a retry after the server said "later": it is alive and has asked for it."""
REFUND: Final = 1
"""For a first attempt that succeeds. A retry that succeeds brings back what it took."""


@dataclass(frozen=True, slots=True)
class Spend(Effect[bool]):
    """Take tokens for a retry at an origin; False, and nothing taken, if there are too few."""

    origin: str
    cost: int


@dataclass(frozen=True, slots=True)
class Refund(Effect[None]):
    """Bring tokens back after a success."""

    origin: str
    tokens: int


class RetryBudget:
    """The buckets of one transport, or of several that share it. Safe for threads.

    `capacity` is the number of tokens of a full bucket. Raises ConfigurationError if it is
    negative; 0 allows no retry at all.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 0:
            raise ConfigurationError(f"capacity must be at least 0, got {capacity}")
        self._capacity = capacity
        # Only buckets that are not full: origins that work take no memory.
        self._left: dict[str, int] = {}
        self._lock = threading.Lock()

    def spend(self, effect: Spend) -> bool:
        """Perform Spend."""
        with self._lock:
            left = self._left.get(effect.origin, self._capacity)
            if left < effect.cost:
                return False
            self._left[effect.origin] = left - effect.cost
            return True

    def refund(self, effect: Refund) -> None:
        """Perform Refund."""
        with self._lock:
            left = self._left.pop(effect.origin, self._capacity) + effect.tokens
            if left < self._capacity:
                self._left[effect.origin] = left

    def left(self, origin: str) -> int:
        """Return the tokens of an origin."""
        with self._lock:
            return self._left.get(origin, self._capacity)
