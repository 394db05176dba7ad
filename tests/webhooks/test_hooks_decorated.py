"""A decorated endpoint behind an inbox: what its workers hand on is under a claim as well."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.types import Receive, Scope, Send

from replayfloor.server import ActiveClaim, AsyncActiveClaim, idempotent
from replayfloor.server.webhooks.inbox.call import Call
from replayfloor.server.webhooks.inbox.call_async import AsyncCall
from replayfloor.server.webhooks.inbox.effects import Handed
from replayfloor.testing.inbox_subject import REQUEST

CLAIM = SimpleNamespace(recorded=None)


@pytest.mark.anyio
async def test_workers_may_call_a_decorated_endpoint_over_asgi() -> None:
    @idempotent(effects="atomic")
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    call = AsyncCall(REQUEST, cast("AsyncActiveClaim", CLAIM), {})
    answer = await call.answer(endpoint)
    await call.rest()

    assert answer == Handed(200, "", recorded=False)


def test_workers_may_call_a_decorated_endpoint_over_wsgi() -> None:
    @idempotent(effects="atomic")
    def endpoint(environ: dict[str, object], start_response: Callable[..., object]) -> list[bytes]:
        del environ
        start_response("200 OK", [])
        return []

    call = Call(REQUEST, cast("ActiveClaim", CLAIM))

    assert call.answer(endpoint) == Handed(200, "", recorded=False)
