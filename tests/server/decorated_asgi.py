"""Two decorated endpoints and a plain one, and what is found or serves a request of them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from replayfloor.server.decorator import AsgiEndpoints, idempotent, mounted
from replayfloor.server.routes import Overrides
from server.wire import Exchange
from server.wire import Request as Sent

A, B = Overrides(lease_s=1.0), Overrides(lease_s=2.0)


@idempotent(lease_s=1.0)
async def a(request: Request) -> Response:
    """Carry A."""
    return Response("a")


@idempotent(lease_s=2.0)
def b(request: Request) -> Response:
    """Carry B."""
    return Response("b")


def plain(request: Request) -> Response:
    """Carry nothing."""
    return Response("plain")


CARRIED = {b"a": A, b"b": B}


def find(app: ASGIApp, path: str, method: str = "POST", **changes: object) -> Overrides | None:
    """Return what is found for a request, as the first one of the application."""
    return AsgiEndpoints(app).find({**Sent(method, path).scope(), **changes})


async def served(app: ASGIApp, path: str, method: str = "POST", **changes: object) -> object:
    """Return the options of the endpoint that serves a request in fact."""
    exchange = Exchange(app, Sent(method, path))
    with mounted():
        answer = await exchange.run({**Sent(method, path).scope(), **changes})
    return CARRIED.get(answer.body)


def post(path: str, endpoint: Callable[[Request], object]) -> Route:
    """Return a route for POST."""
    return Route(path, endpoint, methods=["POST"])


def fastapi_app() -> FastAPI:
    """Return an application with routers in routers, under prefixes, beside a mount."""
    app = FastAPI()
    app.root_path = "/api"
    inner, outer = APIRouter(prefix="/inner"), APIRouter()
    inner.add_api_route("/{id}", a, methods=["POST"])
    inner.add_api_route("/{id}", b, methods=["DELETE"])
    inner.mount("/mounted", Router([post("/b", b)]))
    outer.include_router(inner, prefix="/nested")
    outer.add_api_route("/plain", plain, methods=["POST"])
    app.include_router(outer, prefix="/v1")
    app.include_router(outer, prefix="/v2", include_in_schema=False)
    app.add_api_route("/v1/nested/inner/{id}", b, methods=["POST", "PATCH"])
    app.mount("/sub", sub := FastAPI())
    sub.add_api_route("/b", b, methods=["POST"])
    return app
