"""The workers of an ASGI application's inbox: their life, and what they share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Unpack

from starlette.types import ASGIApp

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.keeper_async import AsyncAlarm
from replayfloor.server.stores.inbox import AsyncInbox, inbox_url
from replayfloor.server.stores.inbox_async import AsyncPostgresInbox
from replayfloor.server.webhooks.inbox.bell_async import AsyncBell
from replayfloor.server.webhooks.inbox.listen import listen_async
from replayfloor.server.webhooks.inbox.options import (
    GRACE_S,
    EffectsOf,
    WorkerOptions,
    WorkerSettings,
)
from replayfloor.server.webhooks.inbox.worker_async import AsyncWorker

CLEANUP_S: Final = 5.0
"""How long a worker may take to settle an event whose application was stopped: an operation."""

log = logging.getLogger("replayfloor.server")


class AsyncInboxWorkers:
    """Apply what is in the inbox, in the event loop that starts them.

    Args:
        receipts: the middleware's, as a URL: `postgresql://…`. SQLite has no inbox.
        app: the application that the middleware protects. It is called as it would be by the
            middleware, so authentication and other middlewares outside of that are not.
        effects_of: says where the handler of an event writes.
        options: see WorkerOptions.

    A handler finds its claim where it always is. Raises ConfigurationError; connects nothing.
    """

    def __init__(
        self,
        receipts: object,
        app: ASGIApp,
        effects_of: EffectsOf,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """See the class."""
        self._url = inbox_url(receipts)
        self._settings = settings = WorkerSettings(**options)
        self._app, self._effects_of = app, effects_of
        self._inbox: AsyncInbox = AsyncPostgresInbox(
            self._url,
            namespace=settings.namespace,
            workers=settings.workers,
            operation_s=settings.operation_s,
        )
        self._bell = AsyncBell()
        self._workers: list[AsyncWorker] = []
        self._begun = False
        self._tasks: list[asyncio.Task[None]] = []
        self._listening: asyncio.Task[None] | None = None
        self._state: Mapping[str, object] = {}

    async def start(self, state: Mapping[str, object] | None = None) -> None:
        """Begin to take events, unless that has begun.

        `state` is the lifespan's, which servers hand to each request. A database that does not
        answer yet is waited for; one that was not migrated raises SchemaMissing.
        """
        if self._begun:
            return
        # Set first: whoever asks while the inbox is being opened has nothing to begin.
        self._begun = True
        self._state = {} if state is None else state
        try:
            await self._inbox.open()
        except StoreUnavailable as error:
            log.warning("starting without the inbox: %s", error)
        except BaseException:
            self._begun = False
            raise
        alarm, settings = AsyncAlarm(), self._settings
        self._workers = [
            AsyncWorker(
                settings,
                self._inbox,
                self._app,
                self._effects_of,
                lambda: self._state,
                self._bell,
                alarm,
            )
            for _ in range(settings.workers)
        ]
        self._tasks = [asyncio.create_task(each.run()) for each in self._workers]
        if settings.listen:
            listening = listen_async(self._url, settings.namespace, self._bell.ring)
            self._listening = asyncio.create_task(listening)

    async def stop(self, grace_s: float = GRACE_S) -> bool:
        """Take no more, let what is at hand come to its end, and give back what does not.

        After `grace_s` seconds handlers are cancelled. Of an atomic or a repeatable route the event
        is due again at once; of an external one it is dead, since nobody knows what was done.
        Returns whether all handlers have ended within the time.
        """
        if not self._begun:
            return True
        tasks, self._tasks, self._begun = self._tasks, [], False
        for each in self._workers:
            each.stopping = True
        self._bell.ring_all()
        late = await _ended(tasks, grace_s)
        if late:
            for each in self._workers:
                each.cut()
            if await _ended(tasks, CLEANUP_S):
                for each in self._workers:
                    await each.give_back()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
            self._listening = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEANUP_S)
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                log.error("a worker of the inbox failed", exc_info=task.exception())
        self._workers = []
        await self._inbox.close()
        return not late

    async def __aenter__(self) -> AsyncInboxWorkers:
        """Start them."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop them."""
        await self.stop()


async def _ended(tasks: list[asyncio.Task[None]], within_s: float) -> bool:
    """Wait for the tasks; say whether any has not ended in time."""
    if not tasks:
        return False
    with suppress(TimeoutError):
        _done, late = await asyncio.wait(tasks, timeout=within_s)
        return bool(late)
    return True
