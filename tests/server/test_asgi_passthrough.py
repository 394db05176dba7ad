"""What is not protected passes untouched: scope, receive and send are the server's own."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from replayfloor.server import Route
from server.backends import Backend
from server.doubles import watched_lock, watched_receipts
from server.wire import Request

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


async def _passes(asgi: Backend, scope: Scope, routes: list[Route] | None = None) -> bool:
    spy = Spy()
    receipts, lock = watched_receipts(asgi.receipts()), watched_lock(asgi.lock())
    app = asgi.protect(spy, receipts=receipts, lock=lock, required=True, routes=routes)
    await app(scope, _receive, _send)
    ((seen, receive, send_back),) = spy.called
    same = seen is scope and receive is _receive and send_back is _send
    return same and not receipts.calls and not lock.calls


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "QUERY"])
async def test_other_methods_pass_untouched_even_with_a_key(
    asgi_sqlite: Backend, method: str
) -> None:
    assert await _passes(asgi_sqlite, Request(method=method).scope())


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_other_methods_pass_untouched_on_either_store(asgi: Backend, method: str) -> None:
    assert await _passes(asgi, Request(method=method).scope())


async def test_a_websocket_passes_untouched(asgi_sqlite: Backend) -> None:
    scope = {**Request(method="GET").scope(), "type": "websocket"}
    del scope["method"]

    assert await _passes(asgi_sqlite, scope)


async def test_a_kind_of_connection_that_nobody_knows_passes_untouched(
    asgi_sqlite: Backend,
) -> None:
    assert await _passes(asgi_sqlite, {"type": "webtransport", "path": "/"})


async def test_a_protected_request_without_key_passes_untouched(asgi_sqlite: Backend) -> None:
    spy, scope = Spy(), Request(key=None).scope()

    await asgi_sqlite.protect(spy)(scope, _receive, _send)

    ((seen, receive, send_back),) = spy.called
    assert seen is scope
    assert (receive, send_back) == (_receive, _send)
