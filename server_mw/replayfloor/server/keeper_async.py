"""Runs the renewals of one claim beside its handler, in an asyncio task of its own.

Most handlers end long before the first renewal is due; for them there is a timer and no task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("replayfloor.server")


class AsyncLeaseKeeper:
    """Calls `renew` once the time has come; `on_lost` if it returns, since it only does then."""

    def __init__(
        self, first_s: float, renew: Callable[[], Awaitable[None]], on_lost: Callable[[], None]
    ) -> None:
        """Begin to wait for the first renewal; a running asyncio loop is needed."""
        self._renew, self._on_lost = renew, on_lost
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(first_s, self._begin)

    def stop(self) -> None:
        """Renew no more. May be called again."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self._renew()
        except Exception:
            # A defect of the store. The handler goes on; its finish is fenced in any case.
            log.exception("a lease could not be renewed")
        self._on_lost()
