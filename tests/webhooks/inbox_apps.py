"""Applications whose inbox `replayfloor inbox work` applies, in the ways that they are wrapped."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import IO, cast

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.server import ActiveClaim, AsyncActiveClaim
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers
from webhooks.inboxes import INSERT

URL = os.environ.get("INBOX_URL", "postgresql://nobody.invalid/d")


class Protecting:
    """Has an inbox, as the middleware does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def inbox_workers(self, *, workers: int | None = None) -> AsyncInboxWorkers:
        """Return its workers."""
        return AsyncInboxWorkers(URL, self._app, lambda _: Effects.ATOMIC, workers=workers or 4)


class Around:
    """Any other middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@asynccontextmanager
async def lifespan(_app: object) -> AsyncIterator[Mapping[str, object]]:
    """Leave something for the requests."""
    yield {"run": "from the lifespan"}


async def endpoint(request: Request) -> Response:
    """Write into the ledger."""
    claim: AsyncActiveClaim = request.state.idempotency
    entry = (await request.json())["id"]
    await claim.connection.execute(INSERT, (entry, request.state.run))
    return Response()


routes = [Route("/hooks/{name}", endpoint, methods=["POST"])]
around = [Middleware(Around), Middleware(Protecting)]
starlette_app = Starlette(routes=routes, lifespan=lifespan, middleware=around)
wrapped_app = Around(Protecting(Around(Starlette(routes=routes, lifespan=lifespan))))


def handle(environ: dict[str, object], start_response: Callable[..., object]) -> list[bytes]:
    """Write into the ledger."""
    claim = cast("ActiveClaim", environ["replayfloor.claim"])
    entry = json.loads(cast("IO[bytes]", environ["wsgi.input"]).read())["id"]
    claim.connection.execute(INSERT, (entry, "threads"))
    start_response("200 OK", [])
    return []


class ProtectingWSGI:
    """Has an inbox, as the middleware does."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: object, start_response: object) -> Iterable[bytes]:
        return self._app(environ, start_response)

    def inbox_workers(self, *, workers: int | None = None) -> InboxWorkers:
        """Return its workers."""
        return InboxWorkers(URL, self._app, lambda _: Effects.ATOMIC, workers=workers or 4)


class FlaskLike:
    """An application that keeps what it is wrapped in at `wsgi_app`."""

    def __init__(self) -> None:
        self.wsgi_app = ProtectingWSGI(handle)

    def __call__(self, environ: object, start_response: object) -> Iterable[bytes]:
        return self.wsgi_app(environ, start_response)


wsgi_app = ProtectingWSGI(handle)
flask_like = FlaskLike()
