"""Runs the renewals of claims beside their handlers, in asyncio tasks.

Most handlers end long before their first renewal is due. So one timer of the event loop waits for
all of them (a timer of its own costs as much as all the rest of a claim's upkeep), and only a
handler that outlives that moment gets a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("replayfloor.server")


class AsyncAlarm:
    """Begins renewals when they are due. Belongs to the event loop that used it last."""

    def __init__(self) -> None:
        """Wait for nothing."""
        self._loop: asyncio.AbstractEventLoop | None = None
        # By period: those of one period are due in the order in which they were set.
        self._due: dict[float, dict[AsyncLeaseKeeper, float]] = {}
        self._ringing: set[float] = set()

    def set(self, period_s: float, keeper: AsyncLeaseKeeper) -> None:
        """Begin a renewal after a period; a running asyncio loop is needed."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A timer of a loop that has ended rings no more, and with it nothing would be renewed.
            self._loop, self._due, self._ringing = loop, {}, set()
        due = self._due.get(period_s)
        if due is None:
            due = self._due[period_s] = {}
        due[keeper] = loop.time() + period_s
        if period_s not in self._ringing:
            self._ringing.add(period_s)
            loop.call_later(period_s, self._ring, period_s)

    def forget(self, period_s: float, keeper: AsyncLeaseKeeper) -> None:
        """Begin it no more; nothing happens if it has begun or was forgotten."""
        due = self._due.get(period_s)
        if due is not None:
            due.pop(keeper, None)

    def _ring(self, period_s: float) -> None:
        loop, due = asyncio.get_running_loop(), self._due.get(period_s, {})
        if loop is not self._loop:
            return
        now = loop.time()
        while due:
            keeper, at = next(iter(due.items()))
            if at > now:
                loop.call_at(at, self._ring, period_s)
                return
            del due[keeper]
            keeper.begin()
        self._ringing.discard(period_s)


class AsyncLeaseKeeper:
    """Calls `renew` once the time has come; `on_lost` if it returns, since it only does then."""

    __slots__ = ("_alarm", "_first_s", "_on_lost", "_renew", "_task")

    def __init__(
        self,
        alarm: AsyncAlarm,
        first_s: float,
        renew: Callable[[], Awaitable[None]],
        on_lost: Callable[[], None],
    ) -> None:
        """Begin to wait for the first renewal; a running asyncio loop is needed."""
        self._alarm, self._first_s = alarm, first_s
        self._renew, self._on_lost = renew, on_lost
        self._task: asyncio.Task[None] | None = None
        alarm.set(first_s, self)

    def stop(self) -> None:
        """Renew no more. May be called again."""
        self._alarm.forget(self._first_s, self)
        if self._task is not None:
            self._task.cancel()

    def begin(self) -> None:
        """Renew from now on; called when the first renewal is due."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self._renew()
        except Exception:
            # A defect of the store. The handler goes on; its finish is fenced in any case.
            log.exception("a lease could not be renewed")
        self._on_lost()
