"""Wakes workers that found nothing to do, one at a time, in an event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class AsyncBell:
    """Rings for one of those who wait. A ring that comes between a worker's look and its waiting is
    seen by `count`, which the worker has read before it looked."""

    def __init__(self) -> None:
        """Be silent."""
        self.count = 0
        self._waiting: list[asyncio.Event] = []

    def ring(self) -> None:
        """Wake one; whoever looks at this moment will look again."""
        self.count += 1
        if self._waiting:
            self._waiting.pop(0).set()

    def ring_all(self) -> None:
        """Wake everybody."""
        self.count += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set()

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """Wait for a ring since `count` was `seen`; say whether there was one in time."""
        if self.count != seen:
            return True
        mine = asyncio.Event()
        self._waiting.append(mine)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await mine.wait()
        finally:
            with suppress(ValueError):
                self._waiting.remove(mine)
        return mine.is_set()
