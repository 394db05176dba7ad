"""The first request with a key over ASGI: messages, scope and context are the server's own."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
from starlette.types import Receive, Scope, Send

from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

SEEN: ContextVar[str] = ContextVar("SEEN", default="unset")


@pytest.mark.parametrize("effects", ["atomic", "external"])
@pytest.mark.parametrize("status", [201, 503])
async def test_the_messages_of_the_first_answer_are_those_of_the_application(
    asgi: Backend, effects: EffectsOption, status: int
) -> None:
    app = LedgerApp(asgi, effects, status, headers=(), bodies=[b"a", b"", b"b"])
    bare = Exchange(app, Request())
    protected = Exchange(asgi.protect(app, effects=effects), Request())

    await bare.run()
    await protected.run()

    assert protected.sent == bare.sent


async def test_the_application_learns_that_the_client_has_gone(asgi_sqlite: Backend) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        heard.append((await receive())["type"])

    await send(asgi_sqlite.protect(app))

    assert heard == ["http.request", "http.disconnect"]


async def test_a_context_variable_set_in_the_application_is_seen_by_its_caller(
    asgi: Backend,
) -> None:
    async def set_it() -> None:
        SEEN.set("inside")

    SEEN.set("outside")
    await send(asgi.protect(LedgerApp(asgi, after=set_it)))

    assert SEEN.get() == "inside"


async def test_state_set_in_the_application_is_seen_by_the_middlewares_outside(
    asgi_sqlite: Backend,
) -> None:
    """`request.state.user = …` in a handler is read by logging and metrics around it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["user"] = "u-1"
        await LedgerApp(asgi_sqlite)(scope, receive, send)

    request = Request()
    bare, protected = request.scope(), request.scope()

    await Exchange(app, request).run(bare)
    await Exchange(asgi_sqlite.protect(app), request).run(protected)

    assert bare["state"]["user"] == "u-1"
    assert protected["state"].get("user") == "u-1"


async def test_what_the_router_notes_in_the_scope_is_seen_by_the_middlewares_outside(
    asgi_sqlite: Backend,
) -> None:
    """Starlette puts "route" and "endpoint" there; tracing around it names its spans by them."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = "/pay"
        await LedgerApp(asgi_sqlite)(scope, receive, send)

    scope = Request().scope()
    await Exchange(asgi_sqlite.protect(app), Request()).run(scope)

    assert scope.get("route") == "/pay"


async def test_the_claim_is_found_in_the_state_beside_what_others_put_there(
    asgi: Backend,
) -> None:
    found: dict[str, object] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.update(scope["state"])
        await LedgerApp(asgi)(scope, receive, send)

    scope = Request().scope()
    scope["state"] = {"database": "db"}
    await Exchange(asgi.protect(app), Request()).run(scope)

    claim = found["idempotency"]
    assert found["database"] == "db"
    assert len(getattr(claim, "id", "")) == 32
    assert getattr(claim, "taken_over", None) is False
