"""The route that is measured, and those that the benchmark itself asks. Starlette and nothing else:
the environments of the peers import it too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Handler = Callable[[Request], Awaitable[Response]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

HOLD: Final = "x-hold"
"""With this header the handler waits until /release is called: the key is in flight so long."""


async def pay(request: Request) -> Response:
    """Answer as a payment would be answered."""
    payment = json.loads(await request.body())
    await wait_if_told(request)
    return JSONResponse({"status": "charged", "id": payment["id"]}, 201)


async def wait_if_told(request: Request) -> None:
    """Wait for /release, if the request says so."""
    if HOLD in request.headers:
        await request.app.state.released.wait()


async def ready(_request: Request) -> Response:
    """Say that the worker serves."""
    return Response()


async def release(request: Request) -> Response:
    """Let the handlers that wait go on."""
    request.app.state.released.set()
    return Response()


def routes(
    handler: Handler = pay,
    middleware: Sequence[Middleware] = (),
    lifespan: Lifespan | None = None,
) -> Starlette:
    """Return the application around a handler."""
    app = Starlette(
        routes=[
            Route("/payments", handler, methods=["POST"]),
            Route("/ready", ready),
            Route("/release", release),
        ],
        middleware=middleware,
        lifespan=lifespan,
    )
    app.state.released = asyncio.Event()
    return app
