"""Which decorated endpoint an ASGI request is for: Starlette's and FastAPI's routers decide."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Host, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.server.decorator import AsgiEndpoints, idempotent
from replayfloor.server.routes import Overrides
from server.decorated_asgi import A, B, a, b, fastapi_app, find, plain, post, served
from server.wire import Request as Sent

pytestmark = pytest.mark.anyio

ROUTES = [
    post("/a", a),
    post("/b/{id:int}", b),
    post("/b/special", a),
    post("/plain", plain),
    Route("/a", b, methods=["PUT"]),
    Route("/slash/", a, methods=["POST"]),
    Route("/partial", functools.partial(a), methods=["POST"]),
    Mount("/v1", routes=[post("/a", b), Mount("/{tenant}", routes=[post("/pay", a)])]),
    Mount("/app", app=Starlette(routes=[post("/a", b)])),
    Mount("/wrapped", routes=[post("/a", b)], middleware=[Middleware(CORSMiddleware)]),
    Mount("/method", app=Router([post("/a", b)]).app),
    Host("{tenant}.example.org", app=Router([post("/", b), post("/c", b)])),
    Mount("", routes=[post("/c", a)]),
]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/a", A),
        ("PUT", "/a", B),
        ("PATCH", "/a", None),
        ("POST", "/b/7", B),
        ("POST", "/b/x", None),
        ("POST", "/b/special", A),
        ("POST", "/plain", None),
        ("POST", "/partial", A),
        ("POST", "/slash/", A),
        ("POST", "/slash", None),
        ("POST", "/v1/a", B),
        ("POST", "/v1/x/pay", A),
        ("POST", "/v1/x/y/pay", None),
        ("POST", "/app/a", B),
        ("POST", "/app/b", None),
        ("POST", "/wrapped/a", B),
        ("POST", "/method/a", B),
        ("POST", "/c", A),
        ("POST", "/nowhere", None),
    ],
)
@pytest.mark.parametrize("wrap", [Starlette, Router])
async def test_the_router_decides_whose_options_count(
    wrap: Callable[..., ASGIApp], method: str, path: str, expected: Overrides | None
) -> None:
    app = wrap(routes=ROUTES)

    assert find(app, path, method) == await served(app, path, method) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [(b"acme.example.org", B), (b"ACME.example.org:8000", B), (b"example.org", A), (None, A)],
)
async def test_the_host_decides_where_the_router_asks_for_it(
    host: bytes | None, expected: Overrides
) -> None:
    app, headers = Starlette(routes=ROUTES), [] if host is None else [(b"host", host)]

    assert find(app, "/c", headers=headers) == await served(app, "/c", headers=headers) == expected


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE"])
def test_a_safe_method_has_no_options(method: str) -> None:
    app = Starlette(routes=[Route("/a", a, methods=["GET", "POST", "OPTIONS", "TRACE"])])

    assert find(app, "/a", method) is None
    assert AsgiEndpoints(app).lookup(Sent(method, "/a").scope())() is None
    assert find(app, "/a", "POST") == A


@pytest.mark.parametrize(
    ("path", "root_path", "expected"),
    [
        ("/proxy/v1/a", "/proxy", B),
        ("/proxy/app/a", "/proxy", B),
        ("/proxy/a", "/proxy", A),
        ("/a", "/proxy", A),
        ("/v1/a", "/proxy", None),
        ("/proxy/v1/a", "/other", None),
    ],
)
async def test_a_path_below_a_root_path_is_the_routers_to_read(
    path: str, root_path: str, expected: Overrides | None
) -> None:
    app = Starlette(routes=ROUTES)
    in_fact = await served(app, path, root_path=root_path)

    assert find(app, path, root_path=root_path) == in_fact == expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/nested/inner/7", A),
        ("DELETE", "/v1/nested/inner/7", B),
        ("PATCH", "/v1/nested/inner/7", B),
        ("PUT", "/v1/nested/inner/7", None),
        ("POST", "/v2/nested/inner/7", A),
        ("PATCH", "/v2/nested/inner/7", None),
        ("POST", "/api/v1/nested/mounted/b", B),
        ("POST", "/v1/nested/mounted/b", None),
        ("POST", "/v1/plain", None),
        ("POST", "/sub/b", None),
        ("POST", "/api/sub/b", B),
        ("POST", "/api/v1/nested/inner/7", A),
        ("POST", "/nested/inner/7", None),
    ],
)
async def test_a_router_that_fastapi_includes_is_looked_into(
    method: str, path: str, expected: Overrides | None
) -> None:
    app = fastapi_app()

    assert find(app, path, method) == await served(app, path, method) == expected


def test_looking_for_an_endpoint_leaves_the_scope_as_it_is() -> None:
    scope = Sent(path="/v1/nested/inner/7").scope()
    before = dict(scope)

    assert AsgiEndpoints(fastapi_app()).find(scope) == A
    assert scope == before


class Payments(HTTPEndpoint):
    """Two methods with options of their own, and one without."""

    @idempotent(lease_s=1.0)
    async def post(self, request: Request) -> Response:
        """Carry A."""
        return Response()

    @idempotent(lease_s=2.0)
    def put(self, request: Request) -> Response:
        """Carry B."""
        return Response()

    async def patch(self, request: Request) -> Response:
        """Carry nothing."""
        return Response()


@idempotent(lease_s=2.0)
class Refunds(Payments):
    """All methods, those of another class."""

    post = put = Payments.patch  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


def test_a_method_of_a_class_has_options_of_its_own() -> None:
    app = Starlette(routes=[Route("/pay", Payments), Route("/refund", Refunds)])

    assert [find(app, "/pay", method) for method in ("POST", "PUT", "PATCH", "DELETE")] == [
        A,
        B,
        None,
        None,
    ]
    assert [find(app, "/refund", method) for method in ("POST", "PUT", "PATCH")] == [B] * 3


def test_an_application_is_seen_through_its_middlewares() -> None:
    app: ASGIApp = FastAPI()
    assert isinstance(app, FastAPI)
    app.add_api_route("/a", a, methods=["POST"])

    assert find(CORSMiddleware(CORSMiddleware(app)), "/a") == A


async def test_below_a_route_the_endpoint_is_the_one_that_was_chosen() -> None:
    found: list[Overrides | None] = []

    def probe(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            found.append(AsgiEndpoints(app).find(scope))
            await app(scope, receive, send)

        return call

    # To the routes of the application, /v1/a below the mount looks like its own /a.
    route = Route("/a", b, methods=["POST"], middleware=[Middleware(probe)])
    app = Starlette(routes=[post("/a", a), Mount("/v1", routes=[route])])

    assert await served(app, "/v1/a") == B
    assert found == [B]
