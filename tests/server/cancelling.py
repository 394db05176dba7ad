"""The ways in which a request is cancelled from outside while it is held up at a gate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import anyio
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.types import ASGIApp

from server.apps import Gate
from server.wire import Exchange, Request

PATIENCE_S = 10.0

Canceller = Callable[[ASGIApp, Gate, Request], Awaitable[Exchange]]


async def task_cancel(app: ASGIApp, gate: Gate, request: Request) -> Exchange:
    """`asyncio.Task.cancel()`, as servers do it."""
    exchange = Exchange(app, request)
    task = asyncio.ensure_future(exchange.run())
    with anyio.fail_after(PATIENCE_S):
        await gate.entered.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert task.cancelled()
    return exchange


async def cancel_scope(app: ASGIApp, gate: Gate, request: Request) -> Exchange:
    """An anyio cancel scope: every await inside is cancelled again and again."""
    exchange = Exchange(app, request)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_at, gate, scope)
            await exchange.run()
    assert scope.cancelled_caught
    return exchange


async def base_http_middleware(app: ASGIApp, gate: Gate, request: Request) -> Exchange:
    """A timeout in a Starlette middleware around ours, which runs us in a task of its own."""

    async def dispatch(request: StarletteRequest, call_next: RequestResponseEndpoint) -> Response:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_at, gate, scope)
                return await call_next(request)
        raise TimeoutError("the request took too long")

    exchange = Exchange(BaseHTTPMiddleware(app, dispatch), request)
    with anyio.fail_after(PATIENCE_S):
        answer = await exchange.run()
    assert answer.raised is not None
    return exchange


async def _cancel_at(gate: Gate, scope: anyio.CancelScope) -> None:
    with anyio.fail_after(PATIENCE_S):
        await gate.entered.wait()
    scope.cancel()


CANCELLERS: tuple[Canceller, ...] = (task_cancel, cancel_scope, base_http_middleware)
