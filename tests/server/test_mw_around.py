"""Other middlewares around ours and inside of it: wrappers, faults on the way out, mounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
REUSED = (422, ProblemKind.KEY_REUSED, False)
both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])

Next = Callable[[StarletteRequest], Awaitable[Response]]


# -- what wraps request and response -------------------------------------------------------------


@pytest.mark.parametrize("where", ["outside", "inside"])
@both_effects
async def test_a_wrapper_that_reads_the_body_leaves_it_to_the_handler(
    backend: Backend, effects: EffectsOption, where: str
) -> None:
    """Starlette's BaseHTTPMiddleware; a request that it has read is given on in one piece."""
    seen: list[bytes] = []

    async def dispatch(request: StarletteRequest, call_next: Next) -> Response:
        seen.append(await request.body())
        answer = await call_next(request)
        answer.headers["x-wrapped"] = "yes"
        return answer

    inner = LedgerApp(backend, effects)
    if where == "outside":
        app: ASGIApp = BaseHTTPMiddleware(backend.protect(inner, effects=effects), dispatch)
    else:
        app = backend.protect(BaseHTTPMiddleware(inner, dispatch), effects=effects)
    request = Request(chunks=(b'{"amount"', b": 1}"))

    first, replay = [await send(app, request) for _ in range(2)]
    other = await send(app, request.but(chunks=(b'{"amount": 2}',)))

    assert [each.brief for each in (first, replay, other)] == [FRESH, REPLAY, REUSED]
    assert {each.first(b"x-wrapped") for each in (first, replay)} == {b"yes"}
    assert first.body == replay.body
    assert inner.bodies_read == [b'{"amount": 1}']
    assert seen[0] == b'{"amount": 1}'
    assert len(backend.ledger.rows()) == 1


async def test_a_streamed_answer_behind_a_wrapper_is_replayed_whole(backend: Backend) -> None:
    async def endpoint(request: StarletteRequest) -> Response:
        backend.ledger.write()
        return StreamingResponse(iter([b"a", b"b" * 1000, b"c"]), 201)

    async def dispatch(request: StarletteRequest, call_next: Next) -> Response:
        return await call_next(request)

    inner = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])
    app = BaseHTTPMiddleware(backend.protect(BaseHTTPMiddleware(inner, dispatch)), dispatch)

    answers = [await send(app) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert {each.body for each in answers} == {b"a" + b"b" * 1000 + b"c"}
    assert len(backend.ledger.rows()) == 1


async def test_a_handler_reads_its_body_as_a_stream(backend: Backend) -> None:
    pieces: list[bytes] = []

    async def endpoint(request: StarletteRequest) -> Response:
        pieces.extend([piece async for piece in request.stream()])
        backend.ledger.write()
        return Response("done", 201)

    inner = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])
    app = backend.protect(inner)
    request = Request(chunks=(b"a" * 70_000, b"", b"b" * 70_000))

    answers = [await send(app, request) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert b"".join(pieces) == b"a" * 70_000 + b"b" * 70_000


WHERE: ContextVar[str] = ContextVar("WHERE", default="nowhere")


async def test_a_context_variable_set_outside_is_seen_inside(asgi: Backend) -> None:
    """Tracing and logging hang on it. Over WSGI there is a thread, and the server's own rules."""
    seen: list[str] = []

    async def look() -> None:
        seen.append(WHERE.get())

    WHERE.set("outside")
    await send(asgi.protect(LedgerApp(asgi, before=look)))

    assert seen == ["outside"]


# -- what happens to the answer on its way out ---------------------------------------------------


class Fault:
    """Changes what the client gets, or lets it get nothing, once."""

    def __init__(self, app: ASGIApp, kind: str) -> None:
        self._app, self._kind = app, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, self._kind = self._kind, "none"
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send if kind == "none" else keep)
        if kind == "502":
            await Response("bad gateway", 502)(scope, receive, send)
        elif kind == "lost":
            raise ConnectionResetError("the answer was lost")


@pytest.mark.parametrize("kind", ["502", "lost"])
@both_effects
async def test_what_is_replayed_is_what_the_handler_said_and_not_what_became_of_it(
    backend: Backend, effects: EffectsOption, kind: str
) -> None:
    app = Fault(backend.protect(LedgerApp(backend, effects), effects=effects), kind)

    first, again = [await send(app) for _ in range(2)]

    assert first.status == (502 if kind == "502" else 500)
    assert again.brief == REPLAY
    assert again.body == LedgerApp(backend).bodies[0]
    assert len(backend.ledger.rows()) == 1


# -- several mounts, several middlewares ---------------------------------------------------------


async def test_two_middlewares_on_one_store_execute_a_request_once(backend: Backend) -> None:
    """As two replicas, or two mounts of one path: nothing is remembered in the process alone."""
    sites = [
        Starlette(routes=[Mount("/v1", backend.protect(LedgerApp(backend), lock="local"))])
        for _ in range(2)
    ]

    answers = [await send(site, Request(path="/v1/pay")) for site in sites]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1


async def test_a_key_that_comes_back_through_another_mount_is_reused_and_not_executed(
    backend: Backend,
) -> None:
    """The client sent another path, and so another request."""
    site = Starlette(
        routes=[
            Mount("/v1", backend.protect(LedgerApp(backend))),
            Mount("/v2", backend.protect(LedgerApp(backend))),
        ]
    )

    answers = [await send(site, Request(path=path)) for path in ("/v1/pay", "/v2/pay", "/v1/pay")]

    assert [each.brief for each in answers] == [FRESH, REUSED, REPLAY]
    assert len(backend.ledger.rows()) == 1


async def test_a_route_of_a_mounted_middleware_is_below_its_mount(backend: Backend) -> None:
    protected = backend.protect(
        LedgerApp(backend), routes=[Route("POST", "/pay", required=True)], methods=()
    )
    site = Starlette(routes=[Mount("/v1", protected)])

    missing = await send(site, Request(path="/v1/pay", key=None))

    assert missing.brief == (400, ProblemKind.MISSING_KEY, False)
