"""Decorated endpoints of FastAPI and Starlette behind the middleware; the ledger is counted."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, cast

import pytest
from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import IdempotencyMiddleware
from replayfloor.server import Route as MiddlewareRoute
from replayfloor.server.decorator import idempotent
from server.backends import Backend, Ledger, claim_of
from server.wire import Request as Sent
from server.wire import send

pytestmark = pytest.mark.anyio

Endpoint = Callable[[Request], Response | Awaitable[Response]]
Arrange = Callable[[Endpoint, Backend], ASGIApp]

METHODS = ["POST", "PUT"]
"""The middleware protects POST by itself; PUT it does not."""


def writing(ledger: Ledger) -> Endpoint:
    """Return an endpoint without options that leaves a row, in a thread of the pool."""

    def pay(request: Request) -> Response:
        ledger.write()
        return PlainTextResponse("paid", 201)

    return pay


def middleware(backend: Backend) -> Middleware:
    """Return the middleware as applications list it."""
    return Middleware(
        cast("Callable[..., ASGIApp]", IdempotencyMiddleware),
        receipts=backend.receipts(),
        lock=backend.lock(),
        principal=None,
    )


def starlette(endpoint: Endpoint, *middlewares: Middleware) -> Starlette:
    route = Route("/pay", endpoint, methods=METHODS)
    return Starlette(routes=[route], middleware=middlewares)


def around(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    return backend.protect(starlette(endpoint))


def around_middlewares(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    async def unchanged(request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)

    return backend.protect(CORSMiddleware(BaseHTTPMiddleware(starlette(endpoint), unchanged)))


def between_middlewares(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    return starlette(
        endpoint, Middleware(CORSMiddleware), middleware(backend), Middleware(CORSMiddleware)
    )


def around_a_closure(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    def closure(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)

        return call

    inner = starlette(endpoint, middleware(backend), Middleware(closure))
    return Starlette(routes=[Mount("", inner)])


def in_fastapi(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    router = APIRouter()
    router.add_api_route("/pay", endpoint, methods=METHODS)
    app = FastAPI(middleware=[middleware(backend)])
    app.include_router(router)
    return app


def at_a_router(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    route = Route("/pay", endpoint, methods=METHODS)
    return Router([route], middleware=[middleware(backend)])


def at_a_mount(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    route = Route("/pay", endpoint, methods=METHODS)
    return Starlette(routes=[Mount("", routes=[route], middleware=[middleware(backend)])])


def at_the_route(endpoint: Endpoint, backend: Backend) -> ASGIApp:
    route = Route("/pay", endpoint, methods=METHODS, middleware=[middleware(backend)])
    return Starlette(routes=[Mount("", routes=[route])])


ARRANGEMENTS = [
    around,
    around_middlewares,
    between_middlewares,
    around_a_closure,
    in_fastapi,
    at_a_router,
    at_a_mount,
    at_the_route,
]


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
async def test_wherever_the_middleware_is_the_endpoint_has_its_own_options(
    asgi_sqlite: Backend, arrange: Arrange
) -> None:
    app = arrange(idempotent(required=True)(writing(asgi_sqlite.ledger)), asgi_sqlite)

    for method in METHODS:
        sent = Sent(method, key=f'"{method}"'.encode())
        refused = await send(app, sent.but(key=None))
        answers = [await send(app, sent) for _ in range(2)]

        assert refused.brief == (400, ProblemKind.MISSING_KEY, False)
        assert [each.brief for each in answers] == [(201, None, False), (201, None, True)]
    assert len(asgi_sqlite.ledger.rows()) == len(METHODS)


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
async def test_an_endpoint_without_the_decorator_has_those_of_the_middleware(
    asgi_sqlite: Backend, arrange: Arrange
) -> None:
    app = arrange(writing(asgi_sqlite.ledger), asgi_sqlite)

    for method in METHODS:
        for _ in range(2):
            await send(app, Sent(method, key=f'"{method}"'.encode()))

    assert len(asgi_sqlite.ledger.rows()) == 1 + 2


async def test_a_handler_that_is_atomic_by_its_decorator_is_rolled_back(
    asgi_sqlite: Backend,
) -> None:
    statuses = [500, 201]

    @idempotent(effects="atomic")
    async def pay(request: Request) -> Response:
        await asgi_sqlite.ledger.write_in(claim_of(request.scope).connection)
        return Response(status_code=statuses.pop(0))

    app = around(pay, asgi_sqlite)
    answers = [await send(app, Sent("PUT")) for _ in range(3)]

    assert [(each.status, each.replayed) for each in answers] == [
        (500, False),
        (201, False),
        (201, True),
    ]
    assert asgi_sqlite.ledger.rows() == ["atomic"]


async def test_a_route_of_the_middleware_goes_before_the_decorator(asgi_sqlite: Backend) -> None:
    pay = idempotent(required=True)(writing(asgi_sqlite.ledger))
    app = asgi_sqlite.protect(
        starlette(pay), routes=[MiddlewareRoute("PUT", "/pay", required=False)]
    )

    assert (await send(app, Sent("PUT", key=None))).status == 201
    assert (await send(app, Sent("POST", key=None))).status == 400
    assert len(asgi_sqlite.ledger.rows()) == 1


class Payment(BaseModel):
    """What a client sends."""

    amount: int


class Receipt(BaseModel):
    """What it gets: no secret."""

    amount: int
    owner: str


def owner_of(request: Request) -> str:
    """Be injected."""
    return f"owner of {request.url.path}"


async def test_fastapi_reads_the_signature_of_the_decorated_function(asgi_sqlite: Backend) -> None:
    app = FastAPI()

    @app.post("/pay/{shop}", status_code=201, response_model=None)
    @idempotent(required=True)
    def in_a_thread(shop: str, payment: Payment, request: Request) -> Response:
        asgi_sqlite.ledger.write(shop)
        return Response(f"{shop} {payment.amount} {request.method}")

    @app.put("/pay", status_code=201)
    @idempotent(required=True)
    async def pay(
        payment: Payment, owner: Annotated[str, Depends(owner_of)], currency: str = "EUR"
    ) -> Receipt:
        await to_thread.run_sync(asgi_sqlite.ledger.write, currency)
        return cast("Receipt", {"amount": payment.amount, "owner": owner, "secret": 1})

    protected = asgi_sqlite.protect(app)
    answers = [await send(protected, Sent("PUT", query=b"currency=USD")) for _ in range(2)]
    other = await send(protected, Sent("POST", "/pay/shop", key=b'"k-2"'))
    wrong = await send(protected, Sent("PUT", chunks=(b"{}",), key=b'"k-3"'))

    assert [json.loads(each.body) for each in answers] == [
        {"amount": 1, "owner": "owner of /pay"}
    ] * 2
    assert (other.status, other.body) == (200, b"shop 1 POST")
    assert wrong.status == 422
    assert asgi_sqlite.ledger.rows() == ["USD", "shop"]
    operation = app.openapi()["paths"]["/pay"]["put"]
    assert [each["name"] for each in operation["parameters"]] == ["currency"]
    assert operation["operationId"] == "pay_pay_put"


async def test_a_decorated_method_of_a_class_is_protected_and_the_others_are_not(
    asgi_sqlite: Backend,
) -> None:
    ledger = asgi_sqlite.ledger

    class Payments(HTTPEndpoint):
        """Writes on PUT and on PATCH."""

        @idempotent(required=True)
        async def put(self, request: Request) -> Response:
            """Write, protected."""
            await to_thread.run_sync(ledger.write, "put")
            return Response()

        def delete(self, request: Request) -> Response:
            """Write, unprotected."""
            ledger.write("delete")
            return Response()

    app = asgi_sqlite.protect(Starlette(routes=[Route("/pay", Payments)]))
    for method in ("PUT", "DELETE"):
        for _ in range(2):
            await send(app, Sent(method))

    assert sorted(ledger.rows()) == ["delete", "delete", "put"]


async def test_a_decorated_class_is_protected_in_all_its_methods(asgi_sqlite: Backend) -> None:
    @idempotent(required=True)
    class Payments(HTTPEndpoint):
        """Writes on PUT."""

        def put(self, request: Request) -> Response:
            """Write."""
            asgi_sqlite.ledger.write()
            return Response()

        def get(self, request: Request) -> Response:
            """Read."""
            return Response(b"read")

    app = asgi_sqlite.protect(Starlette(routes=[Route("/pay", Payments)]))

    assert (await send(app, Sent("PUT", key=None))).problem is ProblemKind.MISSING_KEY
    assert [(await send(app, Sent("PUT"))).replayed for _ in range(2)] == [False, True]
    assert (await send(app, Sent("GET", key=None))).body == b"read"
    assert len(asgi_sqlite.ledger.rows()) == 1
    bare = await send(Starlette(routes=[Route("/pay", Payments)]), Sent("PUT"))
    assert isinstance(bare.raised, UsageError)


async def test_without_the_middleware_the_application_fails_and_nothing_is_written(
    asgi_sqlite: Backend,
) -> None:
    pay = idempotent(required=True)(writing(asgi_sqlite.ledger))
    app = FastAPI()
    app.add_api_route("/pay", pay, methods=METHODS)

    for unprotected in (starlette(pay), app):
        answer = await send(unprotected, Sent())
        assert answer.status == 500
        assert isinstance(answer.raised, UsageError)
    assert asgi_sqlite.ledger.rows() == []


async def test_it_does_not_run_in_a_request_after_a_protected_one(asgi_sqlite: Backend) -> None:
    pay = idempotent(required=True)(writing(asgi_sqlite.ledger))
    bare = starlette(pay)

    assert (await send(asgi_sqlite.protect(bare), Sent())).status == 201
    assert isinstance((await send(bare, Sent())).raised, UsageError)


async def test_a_safe_method_of_a_decorated_endpoint_passes(asgi_sqlite: Backend) -> None:
    @idempotent(required=True)
    async def form(request: Request) -> Response:
        return Response(request.method.encode())

    app = asgi_sqlite.protect(
        Starlette(routes=[Route("/form", form, methods=["GET", "HEAD", "OPTIONS", "POST"])])
    )

    for method in ("GET", "HEAD", "OPTIONS"):
        assert (await send(app, Sent(method, "/form", key=None))).status == 200
    assert (await send(app, Sent("POST", "/form", key=None))).status == 400
