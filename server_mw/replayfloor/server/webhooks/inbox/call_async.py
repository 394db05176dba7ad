"""One call of an ASGI application with a stored request. One object per call.

The application runs in a task of its own. After a success it is held at the end of its answer until
that is settled: as in the middleware, what it does afterwards (background tasks) begins when the
event is applied, and changes nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from starlette.types import ASGIApp, Message

from replayfloor.core.errors import UsageError
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.decorator_mark import mounted
from replayfloor.server.webhooks.inbox.effects import CutOff, HandAnswer, Handed
from replayfloor.server.webhooks.inbox.request import StoredRequest, to_scope

log = logging.getLogger("replayfloor.server")


class AsyncCall:
    """Hands the request over; see the module."""

    def __init__(
        self, request: StoredRequest, claim: AsyncActiveClaim, state: Mapping[str, object]
    ) -> None:
        """Call nothing yet. `state` is what the application's lifespan has left."""
        self._request, self._claim = request, claim
        self._scope = to_scope(request)
        self._scope["state"] = {**state, "idempotency": claim}
        self._status = 0
        self._begun = self._complete = self._read = self._cut = False
        self._succeeded, self._settled = asyncio.Event(), asyncio.Event()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def answer(self, app: ASGIApp) -> HandAnswer:
        """Wait for the answer. Raises what the application raises before it, and UsageError."""
        task = self._task = asyncio.create_task(self._run(app))
        waiting = asyncio.create_task(self._succeeded.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            raise
        finally:
            waiting.cancel()
        if self._succeeded.is_set():
            return self._handed()
        if task.cancelled():
            return CutOff() if self._cut else self._handed("CancelledError")
        error = task.exception()
        if error is None and not self._complete:
            raise UsageError("the application returned without a complete answer")
        if error is not None:
            log.error("applying an event failed", exc_info=error)
        if error is not None and not self._complete:
            return self._handed(type(error).__name__, status=0)
        return self._handed("" if error is None else type(error).__name__)

    def _handed(self, failure: str = "", status: int | None = None) -> Handed:
        recorded = self._claim.recorded is not None
        return Handed(self._status if status is None else status, failure, recorded)

    async def rest(self) -> None:
        """Let the application go on, to its end."""
        self._settled.set()
        if self._task is None:
            return
        try:
            await asyncio.wait((self._task,))
        finally:
            if not self._task.done():
                self._task.cancel()
        if self._succeeded.is_set() and not self._task.cancelled():
            error = self._task.exception()
            if error is not None:
                log.error("an application failed after its answer", exc_info=error)

    def cut(self) -> None:
        """Stop the application, as far as it can be stopped."""
        self._cut = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self, app: ASGIApp) -> None:
        try:
            # It is served under a claim, as the guard of a decorated endpoint asks.
            with mounted():
                await app(self._scope, self._receive, self._send)
        finally:
            self._over.set()

    async def _receive(self) -> Message:
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        # As of a client that waits for its answer and then goes.
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._complete:
            return
        if message["type"] == "http.response.start":
            self._status, self._begun = int(message["status"]), True
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            if not self._begun:
                raise UsageError("the application sent a body before http.response.start")
            self._complete = True
            self._over.set()
            if 200 <= self._status < 300:
                self._succeeded.set()
                await self._settled.wait()
