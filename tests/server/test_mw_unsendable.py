"""An answer that no server can send: found out before its receipt is there."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from replayfloor.core.errors import UsageError
from server.apps import LedgerApp
from server.backends import Backend
from server.wire import send

pytestmark = pytest.mark.anyio


class WithBrokenHeader:
    """A ledger application whose first answers have a header that a client has put there."""

    def __init__(self, inner: LedgerApp) -> None:
        self.inner, self.value = inner, b"/payments/1\r\nset-cookie: a=b"

    async def __call__(self, scope: Scope, receive: Receive, answer: Send) -> None:
        async def altered(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [(b"location", self.value)]}
            await answer(message)

        await self.inner(scope, receive, altered)


async def test_an_atomic_route_is_rolled_back_and_its_key_is_free(asgi: Backend) -> None:
    broken = WithBrokenHeader(LedgerApp(asgi, "atomic"))
    app = asgi.protect(broken, effects="atomic")

    first = await send(app)
    assert isinstance(first.raised, UsageError)
    assert asgi.ledger.rows() == []
    broken.value = b"/payments/1"

    assert (await send(app)).brief == (201, None, False)
    assert len(asgi.ledger.rows()) == 1
