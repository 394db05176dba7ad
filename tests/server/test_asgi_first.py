"""The first request with a key: to application, client and caller it is as without us."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

import pytest
from starlette.types import Receive, Scope, Send

from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

EVERY_BYTE = bytes(range(256))
MANY: Sequence[tuple[bytes, bytes]] = (
    (b"content-type", b"application/octet-stream"),
    (b"set-cookie", b"a=1"),
    (b"set-cookie", b"b=2"),
    (b"link", b'<a>; rel="next"'),
    (b"link", b'<b>; rel="prev"'),
    (b"date", b"Mon, 30 Nov 2026 00:00:00 GMT"),
    (b"X-Case", b"caf\xe9"),
    (b"connection", b"x-case"),
)
SEEN: ContextVar[str] = ContextVar("SEEN", default="unset")


@pytest.mark.parametrize("effects", ["atomic", "external"])
@pytest.mark.parametrize("status", [200, 201, 204, 303, 402, 404, 422, 429, 500, 503])
async def test_the_first_answer_is_sent_as_the_application_made_it(
    backend: Backend, effects: EffectsOption, status: int
) -> None:
    bodies = [b""] if status == 204 else [EVERY_BYTE, b"", b"end"]
    app = LedgerApp(backend, effects, status, headers=MANY, bodies=bodies)
    bare = Exchange(app, Request())
    protected = Exchange(backend.protect(app, effects=effects), Request())

    await bare.run()
    await protected.run()

    assert protected.sent == bare.sent


async def test_only_the_lifetime_is_added_where_a_retention_is_set(sqlite: Backend) -> None:
    app = LedgerApp(sqlite)

    first = await send(sqlite.protect(app, retention=86_400))

    assert first.headers == (*app.headers, (b"idempotency-key-lifetime", b"86400"))


async def test_the_application_reads_the_body_that_was_sent_in_several_messages(
    backend: Backend,
) -> None:
    app = LedgerApp(backend)

    answer = await send(backend.protect(app), Request(chunks=(b"a", b"", EVERY_BYTE, b"")))

    assert answer.status == 201
    assert app.bodies_read == [b"a" + EVERY_BYTE]


async def test_a_request_without_a_body_is_protected_too(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, Request(chunks=())) for _ in range(2)]

    assert [answer.replayed for answer in answers] == [False, True]
    assert len(backend.ledger.rows()) == 1


async def test_the_application_learns_that_the_client_has_gone(sqlite: Backend) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        heard.append((await receive())["type"])

    await send(sqlite.protect(app))

    assert heard == ["http.request", "http.disconnect"]


async def test_a_context_variable_set_in_the_application_is_seen_by_its_caller(
    backend: Backend,
) -> None:
    async def set_it() -> None:
        SEEN.set("inside")

    SEEN.set("outside")
    await send(backend.protect(LedgerApp(backend, after=set_it)))

    assert SEEN.get() == "inside"


async def test_state_set_in_the_application_is_seen_by_the_middlewares_outside(
    sqlite: Backend,
) -> None:
    """`request.state.user = …` in a handler is read by logging and metrics around it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["user"] = "u-1"
        await LedgerApp(sqlite)(scope, receive, send)

    request = Request()
    bare, protected = request.scope(), request.scope()

    await Exchange(app, request).run(bare)
    await Exchange(sqlite.protect(app), request).run(protected)

    assert bare["state"]["user"] == "u-1"
    assert protected["state"].get("user") == "u-1"


async def test_what_the_router_notes_in_the_scope_is_seen_by_the_middlewares_outside(
    sqlite: Backend,
) -> None:
    """Starlette puts "route" and "endpoint" there; tracing around it names its spans by them."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = "/pay"
        await LedgerApp(sqlite)(scope, receive, send)

    scope = Request().scope()
    await Exchange(sqlite.protect(app), Request()).run(scope)

    assert scope.get("route") == "/pay"


async def test_the_claim_is_found_in_the_state_beside_what_others_put_there(
    backend: Backend,
) -> None:
    found: dict[str, object] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.update(scope["state"])
        await LedgerApp(backend)(scope, receive, send)

    scope = Request().scope()
    scope["state"] = {"database": "db"}
    await Exchange(backend.protect(app), Request()).run(scope)

    claim = found["idempotency"]
    assert found["database"] == "db"
    assert len(getattr(claim, "id", "")) == 32
    assert getattr(claim, "taken_over", None) is False
