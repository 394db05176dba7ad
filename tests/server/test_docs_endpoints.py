"""The operations that an application tells of itself."""

from __future__ import annotations

from flask import Flask
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, WebSocketRoute
from starlette.routing import Route as AppRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from werkzeug.middleware.proxy_fix import ProxyFix

from replayfloor.server.decorator import idempotent
from replayfloor.server.docs import Endpoint, describe, endpoints_of
from replayfloor.server.policy import Effects
from replayfloor.server.routes import Overrides
from server.docs_settings import example_app, settings_of


def test_decorated_endpoints_of_included_routers_are_found() -> None:
    app = example_app()
    found = {(each.method, each.path): each.overrides for each in endpoints_of(app)}

    assert found["POST", "/shops/{shop}/refunds"] == Overrides(required=True, effects="repeatable")
    assert found["POST", "/files/{rest:path}"] is None
    assert found["GET", "/pay/{id}"] is None
    # What a middleware that was added has below it.
    assert endpoints_of(ExceptionMiddleware(app.router)) == endpoints_of(app)


class Account(HTTPEndpoint):
    """An endpoint with two methods, one of which is decorated."""

    async def get(self, request: Request) -> Response:
        """Show."""
        return Response()

    @idempotent(effects="repeatable")
    async def delete(self, request: Request) -> Response:
        """Close."""
        return Response()


async def _plain(request: Request) -> Response:
    return Response()


async def _socket(websocket: WebSocket) -> None: ...


async def _opaque(scope: Scope, receive: Receive, send: Send) -> None: ...


def test_the_operations_of_a_starlette_application_are_found_through_mounts_and_middlewares() -> (
    None
):
    app = Starlette(
        routes=[
            AppRoute("/accounts/{id}", Account),
            Mount("/v1", routes=[AppRoute("/pay/{id:int}", _plain, methods=["POST"])]),
            Mount("/{tenant}", app=GZipMiddleware(Starlette(routes=[AppRoute("/x", _plain)]))),
            Mount("/opaque", app=_opaque),
            WebSocketRoute("/ws", _socket),
        ],
        middleware=[Middleware(GZipMiddleware)],
    )
    found = endpoints_of(GZipMiddleware(app))

    assert {(each.method, each.path) for each in found} == {
        ("GET", "/accounts/{id}"),
        ("DELETE", "/accounts/{id}"),
        ("POST", "/v1/pay/{id:int}"),
        ("GET", "/{tenant}/x"),
        ("HEAD", "/{tenant}/x"),
    }
    decorated = [each for each in found if each.overrides is not None]
    assert decorated == [
        Endpoint("DELETE", "/accounts/{id}", Overrides(effects=Effects.REPEATABLE.value))
    ]


def test_the_operations_of_a_flask_application_are_found() -> None:
    app = Flask(__name__, static_folder=None)

    @app.post("/pay/<int(min=1):id>/<path:rest>")
    @idempotent(required=True)
    def pay(id: int, rest: str) -> str:
        return rest

    @app.get("/pay/<id>")
    def show(id: str) -> str:
        return id

    assert set(endpoints_of(app)) == {
        Endpoint("POST", "/pay/{id:int}/{rest:path}", Overrides(required=True)),
        Endpoint("OPTIONS", "/pay/{id:int}/{rest:path}"),
        *(Endpoint(method, "/pay/{id}") for method in ("GET", "HEAD", "OPTIONS")),
    }
    assert endpoints_of(ProxyFix(app.wsgi_app)) == endpoints_of(app)


def test_what_is_no_application_has_no_operations() -> None:
    assert endpoints_of(_opaque) == ()
    assert endpoints_of(None) == ()


def test_the_description_of_a_middleware_in_place_lists_the_decorated_endpoints() -> None:
    text = describe(settings_of(methods=()), endpoints_of(example_app()))

    assert "/shops/{shop}/refunds" in text
    assert "repeatable" in text
