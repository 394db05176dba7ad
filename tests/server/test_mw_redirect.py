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
    stored, they would make the request at the right address a reuse of the key. Who then begins
    again at the wrong address sends another request under the key, and executes nothing."""

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

    assert (answers[0].status_code, answers[0].text) == (201, "paid")
    assert answers[1].status_code == 422
    assert len(backend.ledger.rows()) == 1
