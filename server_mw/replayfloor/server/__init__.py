"""The server side: middlewares that answer a repeated request instead of repeating it."""

from replayfloor.server.asgi import IdempotencyMiddleware
from replayfloor.server.claim import ActiveClaim, AsyncActiveClaim
from replayfloor.server.decorator import idempotent
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.locks import AsyncLock, Lock
from replayfloor.server.locks.local import AsyncLocalLock, LocalLock
from replayfloor.server.once import AsyncGuard, Guard
from replayfloor.server.routes import Route
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware

__all__ = [
    "ActiveClaim",
    "AsyncActiveClaim",
    "AsyncGuard",
    "AsyncLocalLock",
    "AsyncLock",
    "AsyncReceipts",
    "EventKind",
    "Guard",
    "IdempotencyMiddleware",
    "LocalLock",
    "Lock",
    "Receipts",
    "Route",
    "ServerEvent",
    "WSGIIdempotencyMiddleware",
    "idempotent",
]
