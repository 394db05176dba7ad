"""Runs the lifespan of an ASGI application without a server (ASGI, Lifespan Protocol 2.0)."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from starlette.types import ASGIApp, Message

from replayfloor.core.errors import UsageError

log = logging.getLogger("replayfloor.server")


class Lifespan:
    """Started inside of `async with`; `state` is what the application has left for its requests.

    An application without a lifespan is left alone. Raises UsageError if its start fails.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Call nothing yet."""
        self.state: dict[str, object] = {}
        self._app = app
        self._to: asyncio.Queue[Message] = asyncio.Queue()
        self._from: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the application."""
        self._task = asyncio.create_task(self._run())
        answer = await self._ask("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            await asyncio.wait((self._task,))
            raise UsageError(f"the application did not start: {answer.get('message', '')}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        await self._ask("lifespan.shutdown")
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _ask(self, kind: str) -> Message | None:
        """Send a message and return its answer; None from an application that has ended."""
        if self._task is None or self._task.done():
            return None
        self._to.put_nowait({"type": kind})
        answer = asyncio.create_task(self._from.get())
        await asyncio.wait((answer, self._task), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return None

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self._to.get, self._from.put)
        except Exception as error:  # noqa: BLE001 - how an application says that it has none
            log.info("the application has no lifespan (%s)", type(error).__name__)
