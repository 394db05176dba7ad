"""A decorated endpoint that the middleware could not find does not run: its options are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import flask
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from replayfloor.core.errors import UsageError
from replayfloor.server import Route as MiddlewareRoute
from replayfloor.server.decorator import idempotent
from server.backends import Backend
from server.decorated_wsgi import Workers, workers
from server.decorated_wsgi import send as send_wsgi
from server.wire import Request as Sent
from server.wire import send

UNFOUND = "did not find it behind this request"

Endpoint = Callable[[Request], Response]


@pytest.fixture
def workers_on_sqlite(tmp_path: Path) -> Iterator[Workers]:
    """An empty ledger, and WSGI middlewares on SQLite."""
    with workers(tmp_path) as made:
        yield made


def paying(backend: Backend) -> Endpoint:
    """Return a decorated endpoint that leaves a row."""

    @idempotent(required=True)
    def pay(request: Request) -> Response:
        backend.ledger.write()
        return Response(status_code=201)

    return pay


def hidden(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint as one must not: nothing of it is kept."""

    def wrapper(request: Request) -> Response:
        return endpoint(request)

    return wrapper


def closure(app: ASGIApp) -> ASGIApp:
    """Wrap an application in what cannot be looked through."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return call


def routed(endpoint: Endpoint) -> Starlette:
    return Starlette(routes=[Route("/pay", endpoint, methods=["GET", "POST", "PUT"])])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "arranged",
    [
        lambda pay: routed(hidden(pay)),
        lambda pay: closure(routed(pay)),
        lambda pay: Starlette(routes=[Mount("/", closure(routed(pay)))]),
    ],
    ids=["hidden", "in a closure", "below a closure"],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_endpoint_out_of_sight_does_not_run_unless_a_route_is_given(
    asgi_sqlite: Backend, arranged: Callable[[Endpoint], ASGIApp], method: str
) -> None:
    app = arranged(paying(asgi_sqlite))
    refused = await send(asgi_sqlite.protect(app), Sent(method))

    assert isinstance(refused.raised, UsageError)
    assert UNFOUND in str(refused.raised)
    assert asgi_sqlite.ledger.rows() == []

    given = asgi_sqlite.protect(app, routes=[MiddlewareRoute("*", "/pay", required=True)])
    assert (await send(given, Sent(method, key=b'"k-2"'))).status == 201
    assert (await send(asgi_sqlite.protect(app), Sent("GET"))).status == 201


@pytest.mark.anyio
async def test_an_endpoint_that_is_added_after_the_first_request_does_not_run(
    asgi_sqlite: Backend,
) -> None:
    app = routed(lambda request: Response())
    protected = asgi_sqlite.protect(app)

    assert (await send(protected, Sent())).status == 200
    app.router.routes.append(Route("/late", paying(asgi_sqlite), methods=["PUT"]))
    assert isinstance((await send(protected, Sent("PUT", "/late"))).raised, UsageError)
    assert asgi_sqlite.ledger.rows() == []


def test_a_view_out_of_sight_does_not_run(workers_on_sqlite: Workers) -> None:
    app = flask.Flask(__name__)
    app.testing = True

    @app.post("/pay")
    @idempotent(required=True)
    def pay() -> str:
        workers_on_sqlite.ledger.write()
        return "paid"

    several = cast("Callable[..., object]", DispatcherMiddleware(app))
    with pytest.raises(UsageError, match=UNFOUND):
        send_wsgi(workers_on_sqlite.protect(several), "POST")
    assert workers_on_sqlite.ledger.rows() == []
    given = workers_on_sqlite.protect(several, routes=[MiddlewareRoute("POST", "/pay")])
    assert send_wsgi(given, "POST", key='"k-2"').status_code == 200
