"""The workers of a WSGI application's inbox: threads, their life, and what they share."""

from __future__ import annotations

import logging
import os
import threading
from time import monotonic
from types import TracebackType
from typing import Unpack

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.keeper import Alarm
from replayfloor.server.stores.inbox import Inbox, inbox_url
from replayfloor.server.stores.inbox_blocking import PostgresInbox
from replayfloor.server.webhooks.inbox.bell import Bell
from replayfloor.server.webhooks.inbox.listen import listen
from replayfloor.server.webhooks.inbox.options import (
    GRACE_S,
    EffectsOf,
    WorkerOptions,
    WorkerSettings,
)
from replayfloor.server.webhooks.inbox.worker import Worker
from replayfloor.server.wsgi_exchange import WSGIApp

log = logging.getLogger("replayfloor.server")


class _Crew:
    """The threads of one process, from their start to their end."""

    def __init__(
        self, url: str, settings: WorkerSettings, app: WSGIApp, effects_of: EffectsOf
    ) -> None:
        self.process = os.getpid()
        self.inbox: Inbox = PostgresInbox(
            url,
            namespace=settings.namespace,
            workers=settings.workers,
            operation_s=settings.operation_s,
        )
        self.bell, self.stopping = Bell(), threading.Event()
        alarm = Alarm()
        self.workers = [
            Worker(settings, self.inbox, app, effects_of, self.bell, alarm)
            for _ in range(settings.workers)
        ]
        self.threads = [
            threading.Thread(target=each.run, name="replayfloor-inbox", daemon=True)
            for each in self.workers
        ]
        if settings.listen:
            self.threads.append(
                threading.Thread(
                    target=listen,
                    args=(url, settings.namespace, self.bell.ring, self.stopping),
                    name="replayfloor-inbox-listen",
                    daemon=True,
                )
            )


class InboxWorkers:
    """Apply what is in the inbox, in threads of the process that starts them.

    Args:
        receipts: the middleware's, as a URL: `postgresql://…`. SQLite has no inbox.
        app: the application that the middleware protects.
        effects_of: says where the handler of an event writes.
        options: see WorkerOptions.

    Start them after a fork: a child has no threads, whatever its parent had. A handler finds its
    claim where it always is. Raises ConfigurationError; connects nothing.
    """

    def __init__(
        self,
        receipts: object,
        app: WSGIApp,
        effects_of: EffectsOf,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """See the class."""
        self._url = inbox_url(receipts)
        self._settings = WorkerSettings(**options)
        self._app, self._effects_of = app, effects_of
        self._lock = threading.Lock()
        self._crew: _Crew | None = None
        # Checks the options now, and not in the first request of a forked process.
        self._new_crew()

    def start(self) -> None:
        """Begin to take events, unless that has begun in this process.

        A database that does not answer yet is waited for; one that was not migrated raises
        SchemaMissing.
        """
        if self._crew is not None and self._crew.process != os.getpid():
            # A thread that held the lock is not here, and what the parent has is not ours.
            self._lock, self._crew = threading.Lock(), None
        with self._lock:
            if self._crew is not None:
                return
            crew = self._new_crew()
            try:
                crew.inbox.open()
            except StoreUnavailable as error:
                log.warning("starting without the inbox: %s", error)
            self._crew = crew
            for thread in crew.threads:
                thread.start()

    def stop(self, grace_s: float = GRACE_S) -> bool:
        """Take no more, let what is at hand come to its end, and give back what does not.

        A thread cannot be stopped. What a handler of an atomic or repeatable route is still at
        after `grace_s` seconds is given back, and refused at its end; the event of an external one
        is dead when the process ends before the handler. Returns whether all have ended in time.
        """
        with self._lock:
            crew, self._crew = self._crew, None
        if crew is None or crew.process != os.getpid():
            return True
        crew.stopping.set()
        for each in crew.workers:
            each.stopping = True
        crew.bell.ring_all()
        deadline = monotonic() + grace_s
        for thread in crew.threads:
            thread.join(max(0.0, deadline - monotonic()))
        if not any(thread.is_alive() for thread in crew.threads):
            crew.inbox.close()
            return True
        for each in crew.workers:
            each.give_back()
        return False

    def __enter__(self) -> InboxWorkers:
        """Start them."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop them."""
        self.stop()

    def _new_crew(self) -> _Crew:
        return _Crew(self._url, self._settings, self._app, self._effects_of)
