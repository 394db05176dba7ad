"""Wakes workers that found nothing to do, one at a time, in threads."""

from __future__ import annotations

import threading
from contextlib import suppress


class Bell:
    """See AsyncBell."""

    def __init__(self) -> None:
        """Be silent."""
        self.count = 0
        self._lock = threading.Lock()
        self._waiting: list[threading.Event] = []

    def ring(self) -> None:
        """Wake one; whoever looks at this moment will look again."""
        with self._lock:
            self.count += 1
            if self._waiting:
                self._waiting.pop(0).set()

    def ring_all(self) -> None:
        """Wake everybody."""
        with self._lock:
            self.count += 1
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set()

    def wait(self, seen: int, timeout_s: float) -> bool:
        """Wait for a ring since `count` was `seen`; say whether there was one in time."""
        mine = threading.Event()
        with self._lock:
            if self.count != seen:
                return True
            self._waiting.append(mine)
        mine.wait(timeout_s)
        with self._lock, suppress(ValueError):
            self._waiting.remove(mine)
        return mine.is_set()
