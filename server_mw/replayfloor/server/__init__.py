"""The server side: an ASGI middleware that answers a repeated request instead of repeating it."""

from replayfloor.server.asgi import IdempotencyMiddleware
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.locks import AsyncLock
from replayfloor.server.locks.local import AsyncLocalLock
from replayfloor.server.routes import Route
from replayfloor.server.stores import AsyncReceipts

__all__ = [
    "AsyncActiveClaim",
    "AsyncLocalLock",
    "AsyncLock",
    "AsyncReceipts",
    "EventKind",
    "IdempotencyMiddleware",
    "Route",
    "ServerEvent",
]
