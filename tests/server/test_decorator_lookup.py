"""Looking for a decorated endpoint: what there is none of, what it costs, what it may not break."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Host, Match, Mount, Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from replayfloor.server.decorator import AsgiEndpoints, idempotent
from replayfloor.server.routes import Overrides
from server.decorated_asgi import A, a, fastapi_app, find, plain, post
from server.wire import Request as Sent

pytestmark = pytest.mark.anyio


def test_what_is_no_router_has_no_endpoints() -> None:
    async def bare(scope: Scope, receive: Receive, send: Send) -> None:
        """Serve nothing."""

    class Circle:
        """A middleware around itself."""

        def __init__(self) -> None:
            self.app = self

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Serve nothing."""

    assert find(bare, "/a") is None
    assert find(Circle(), "/a") is None


def test_a_circle_of_mounts_ends() -> None:
    app = Router([post("/plain", plain)])
    app.mount("/again", app)
    app.routes.append(post("/a", a))

    assert find(app, "/again/again/a") == A
    assert find(app, "/again" * 1000 + "/a") is None


def test_a_method_of_the_application_is_an_endpoint_like_any_other() -> None:
    class App(Starlette):
        """Has its endpoint as a method."""

        @idempotent(lease_s=1.0)
        async def create(self, request: Request) -> Response:
            """Carry A."""
            return Response()

    app = App()
    app.router.routes.append(post("/a", app.create))

    assert find(app, "/a") == A


class _Exploding(Convertor[str]):
    regex = ".*"

    def convert(self, value: str) -> str:
        raise ValueError(value)

    def to_string(self, value: str) -> str:
        return value


async def ws(websocket: WebSocket) -> None:
    """Serve a socket."""


@pytest.mark.parametrize(
    "path", ["", "/", "//", "a", "*", "/a\x00", "/\udc80", "/\xe4", "/%", "/a?b"]
)
@pytest.mark.parametrize("method", ["POST", "post", "", "BREW"])
def test_an_odd_request_is_none_of_an_endpoint(path: str, method: str) -> None:
    sent = Sent("POST", "/a").scope()
    for app in (Starlette(routes=[post("/a", a), WebSocketRoute("/ws", ws)]), fastapi_app()):
        endpoints = AsgiEndpoints(app)

        assert endpoints.find({**sent, "path": path, "method": method}) is None


def test_a_request_that_the_router_fails_on_is_none_of_an_endpoint() -> None:
    register_url_convertor("exploding", _Exploding())
    app = Starlette(routes=[post("/x/{id:exploding}", a), post("/a", a)])

    assert find(app, "/x/1") is None
    assert find(app, "/a") == A
    assert AsgiEndpoints(app).find({"type": "http", "method": "POST"}) is None
    assert AsgiEndpoints(app).find({"type": "websocket", "path": "/a"}) is None
    assert AsgiEndpoints(app).lookup({"type": "websocket", "path": "/a"})() is None


def test_without_a_decorated_endpoint_the_router_is_not_asked() -> None:
    class Counting(Route):
        """Counts how often it is asked."""

        asked = 0

        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            """Count."""
            Counting.asked += 1
            return super().matches(scope)

    endpoints = AsgiEndpoints(Starlette(routes=[Counting("/plain", plain, methods=["POST"])]))
    for _ in range(3):
        assert endpoints.find(Sent(path="/plain").scope()) is None

    assert Counting.asked == 0


def test_an_endpoint_counts_wherever_it_is_the_only_decorated_one() -> None:
    included = FastAPI()
    router = APIRouter()
    router.add_api_route("/a", a, methods=["POST"])
    included.include_router(router, prefix="/v1")

    for routes in (
        [Mount("/v1", routes=[post("/a", a)])],
        [Mount("", app=CORSMiddleware(Router([Mount("/v1", routes=[post("/a", a)])])))],
        [Host("test", app=Router([post("/v1/a", a)]))],
        included.routes,
    ):
        assert find(Starlette(routes=routes), "/v1/a") == A


def test_a_route_may_be_added_until_the_first_request() -> None:
    app = Starlette()
    endpoints = AsgiEndpoints(app)
    app.router.routes.append(post("/a", a))

    assert endpoints.find(Sent(path="/a").scope()) == A


def test_a_function_that_is_registered_without_its_decorator_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = FastAPI()

    @idempotent(required=True)
    @app.post("/wrong")
    def wrong_order() -> None:
        """Be registered before it is decorated."""

    @app.post("/plain")
    def on_purpose() -> None:
        """Be registered twice, once with."""

    app.post("/protected")(idempotent(on_purpose))

    assert find(app, "/wrong") is None
    assert find(app, "/plain") is None
    assert find(app, "/protected") == Overrides()
    assert "wrong_order is decorated with @idempotent, but registered without" in caplog.text
    assert "on_purpose" not in caplog.text
