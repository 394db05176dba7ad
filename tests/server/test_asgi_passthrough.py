"""What is not protected passes untouched: scope, receive and send are the server's own."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from replayfloor.server import Route
from server.apps import LedgerApp
from server.backends import Backend
from server.doubles import WatchedLock, WatchedReceipts
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio


class Spy:
    """Remembers the objects it was called with."""

    def __init__(self) -> None:
        self.called: list[tuple[Scope, Receive, Send]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called.append((scope, receive, send))


async def _receive() -> Message:
    raise AssertionError("the middleware must not read")


async def _send(message: Message) -> None:
    raise AssertionError("the middleware must not send")


async def _passes(backend: Backend, scope: Scope, routes: list[Route] | None = None) -> bool:
    spy = Spy()
    receipts, lock = WatchedReceipts(backend.receipts()), WatchedLock(backend.lock())
    app = backend.protect(spy, receipts=receipts, lock=lock, required=True, routes=routes)
    await app(scope, _receive, _send)
    ((seen, receive, send_back),) = spy.called
    same = seen is scope and receive is _receive and send_back is _send
    return same and not receipts.calls and not lock.calls


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "QUERY"])
async def test_other_methods_pass_untouched_even_with_a_key(sqlite: Backend, method: str) -> None:
    assert await _passes(sqlite, Request(method=method).scope())


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_other_methods_pass_untouched_on_either_store(backend: Backend, method: str) -> None:
    assert await _passes(backend, Request(method=method).scope())


async def test_a_websocket_passes_untouched(sqlite: Backend) -> None:
    scope = {**Request(method="GET").scope(), "type": "websocket"}
    del scope["method"]

    assert await _passes(sqlite, scope)


async def test_a_kind_of_connection_that_nobody_knows_passes_untouched(sqlite: Backend) -> None:
    assert await _passes(sqlite, {"type": "webtransport", "path": "/"})


async def test_a_protected_request_without_key_passes_untouched(sqlite: Backend) -> None:
    spy, scope = Spy(), Request(key=None).scope()

    await sqlite.protect(spy)(scope, _receive, _send)

    ((seen, receive, send_back),) = spy.called
    assert seen is scope
    assert (receive, send_back) == (_receive, _send)


async def test_a_preflight_reaches_the_application(sqlite: Backend) -> None:
    request = Request(
        method="OPTIONS",
        key=None,
        headers=[(b"access-control-request-headers", b"idempotency-key")],
    )

    answer = await send(sqlite.protect(LedgerApp(sqlite), required=True), request)

    assert answer.status == 201


async def test_a_route_can_protect_another_method(backend: Backend) -> None:
    routes = [Route("PUT", "/pay", required=True)]
    app = backend.protect(LedgerApp(backend), routes=routes)
    put = Request(method="PUT")

    statuses = [(await send(app, each)).status for each in (put.but(key=None), put, put)]

    assert statuses == [400, 201, 201]
    assert len(backend.ledger.rows()) == 1


async def test_a_route_of_one_path_leaves_the_others_to_the_defaults(backend: Backend) -> None:
    routes = [Route("POST", "/pay", required=True)]
    app = backend.protect(LedgerApp(backend), routes=routes)
    without = Request(key=None)

    assert (await send(app, without)).status == 400
    assert (await send(app, without.but(path="/other"))).status == 201


async def test_with_no_methods_only_the_routes_are_protected(sqlite: Backend) -> None:
    routes = [Route("POST", "/pay/{id}")]
    app = sqlite.protect(LedgerApp(sqlite), routes=routes, methods=())

    answers = [
        await send(app, Request(path=path, key=key))
        for path, key in (("/pay/1", b'"a"'), ("/pay/1", b'"a"'), ("/x", b'"b"'), ("/x", b'"b"'))
    ]

    assert [each.replayed for each in answers] == [False, True, False, False]


async def test_a_route_is_found_below_the_root_path_of_a_proxy(sqlite: Backend) -> None:
    app = sqlite.protect(LedgerApp(sqlite), routes=[Route("POST", "/pay", required=True)])
    scope = {**Request(path="/api/pay", key=None).scope(), "root_path": "/api"}

    assert (await Exchange(app, Request(key=None)).run(scope)).status == 400
