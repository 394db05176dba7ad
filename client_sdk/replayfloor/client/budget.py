"""The buckets of the retry budget, in memory. What they are for is in `budget_rules.py`."""

from __future__ import annotations

import threading

from replayfloor.client.budget_rules import CAPACITY, Refund, Spend
from replayfloor.core.errors import ConfigurationError


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
        # A full bucket takes nothing, and nearly all are full. Looked at without the lock: whoever
        # empties it at this moment does so after the success. One that is not full is never out of
        # the dictionary until it is, so that no token is lost to a change that is under way.
        if effect.origin not in self._left:
            return
        with self._lock:
            left = self._left.get(effect.origin, self._capacity) + effect.tokens
            if left < self._capacity:
                self._left[effect.origin] = left
            else:
                self._left.pop(effect.origin, None)

    def left(self, origin: str) -> int:
        """Return the tokens of an origin."""
        with self._lock:
            return self._left.get(origin, self._capacity)
