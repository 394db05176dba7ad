"""Applies an application's inbox in a process of its own: no socket, until a signal comes.

The application's lifespan is run as a server would, so that its handlers find what it opens there.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

import anyio
from starlette.types import ASGIApp

from replayfloor.core.errors import UsageError
from replayfloor.server.webhooks.inbox.lifespan import Lifespan
from replayfloor.server.webhooks.inbox.options import GRACE_S
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers

AnyWorkers: TypeAlias = AsyncInboxWorkers | InboxWorkers

LAYERS_MAX: Final = 200
"""Objects that are looked through for the middleware; an application has some tens around it."""

INWARD: Final = ("app", "_app", "middleware_stack", "wsgi_app", "application", "asgi")
"""Where frameworks and middlewares keep what they call: Starlette and ours; Flask; Django's and
others' wrappers."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@runtime_checkable
class HasInbox(Protocol):
    """What a middleware is recognised by."""

    def inbox_workers(self, *, workers: int | None = None) -> AnyWorkers:
        """Return workers that were not started, for its inbox and its application."""
        ...


def run_inbox(app: object, *, workers: int | None = None, grace_s: float = GRACE_S) -> bool:
    """Apply what is in the inbox of an application until SIGTERM or SIGINT.

    Args:
        app: what a server is given, ASGI or WSGI, or the middleware itself.
        workers: how many events at a time; default: as in the application.
        grace_s: how many seconds handlers have after the signal.

    Returns whether all of them have ended in time. Raises UsageError if there is no middleware of
    ours around the application, and what starting raises. To be called in the main thread.
    """
    made = _workers_of(app, workers)
    if isinstance(made, InboxWorkers):
        return _in_threads(made, grace_s)
    if made is None and not callable(app):
        raise UsageError(f"{app!r} is not an application")
    return anyio.run(_in_event_loop, app, workers, grace_s)


def find_middleware(app: object) -> HasInbox | None:
    """Return the middleware of ours that an application is wrapped in; None if there is none.

    A framework may put its middlewares around itself with the first request, or the lifespan.
    """
    return next((each for each in _layers(app) if isinstance(each, HasInbox)), None)


def _layers(app: object) -> Iterator[object]:
    left, seen = deque([app]), {id(app)}
    while left and len(seen) <= LAYERS_MAX:
        layer = left.popleft()
        yield layer
        for name in INWARD:
            inner: object = getattr(layer, name, None)
            # A bound method, such as Flask's own wsgi_app, leads back to where we are.
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                left.append(inner)


def _workers_of(app: object, workers: int | None) -> AnyWorkers | None:
    found = find_middleware(app)
    return None if found is None else found.inbox_workers(workers=workers)


def _in_threads(made: InboxWorkers, grace_s: float) -> bool:
    stopping = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        made.start()
        stopping.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return made.stop(grace_s)


async def _in_event_loop(app: object, workers: int | None, grace_s: float) -> bool:
    with anyio.open_signal_receiver(*SIGNALS) as signals:
        async with Lifespan(cast("ASGIApp", app)) as lifespan:
            made = _workers_of(app, workers)
            if not isinstance(made, AsyncInboxWorkers):
                raise UsageError(NO_MIDDLEWARE)
            await made.start(lifespan.state)
            async for _number in signals:
                break
            return await made.stop(grace_s)


NO_MIDDLEWARE: Final = (
    "no IdempotencyMiddleware is around this application, as far as can be seen: name the "
    "middleware itself"
)
