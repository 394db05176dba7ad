"""A redirect that means "repeat this request elsewhere": the client follows it with its key."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as Endpoint

from server.backends import Backend

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("start", ["/pay/", "/old"])
async def test_a_redirect_of_the_same_request_is_followed_under_the_same_key(
    backend: Backend, start: str
) -> None:
    """Starlette answers 307 for a slash too many. 307 and 308 execute nothing (RFC 9110, 15.4.8);
    stored, they would make the request at the right address a reuse of the key."""

    async def pay(request: Request) -> Response:
        backend.ledger.write()
        return Response("paid", 201)

    async def moved(request: Request) -> Response:
        return RedirectResponse("/pay", 308)

    inner = Starlette(
        routes=[
            Endpoint("/pay", pay, methods=["POST"]),
            Endpoint("/old", moved, methods=["POST"]),
        ]
    )
    transport = httpx.ASGITransport(backend.protect(inner))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://test", follow_redirects=True
    ) as client:
        headers = {"Idempotency-Key": '"k"'}
        answers = [await client.post(start, content=b"{}", headers=headers) for _ in range(2)]

    assert [(each.status_code, each.text) for each in answers] == [(201, "paid")] * 2
    assert len(backend.ledger.rows()) == 1
