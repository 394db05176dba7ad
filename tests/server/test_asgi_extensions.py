"""What else an ASGI server may offer: files by name, hints, and what they do to a kept answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from server.backends import Backend
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["http.response.pathsend", "http.response.zerocopysend"])
async def test_a_file_is_sent_in_messages_that_can_be_kept(
    asgi_sqlite: Backend, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asgi_sqlite.ledger.write()
        await FileResponse(tmp_path / "file")(scope, receive, send)

    protected = asgi_sqlite.protect(app)
    request = Request(extensions={name: {}})

    first, again = [await send(protected, request) for _ in range(2)]

    assert (first.body, again.body, again.replayed) == (b"content", b"content", True)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "http.response.debug", "info": {"template": "t", "context": {}}},
        {"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]},
        {"type": "http.response.push", "path": "/a.css", "headers": []},
    ],
)
async def test_a_message_of_an_extension_ahead_of_the_answer_is_passed_on(
    asgi: Backend, message: dict[str, object]
) -> None:
    """Starlette's templates send the first to its test client, Hypercorn takes the others."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asgi.ledger.write()
        await send(message)
        await Response("answer", 201)(scope, receive, send)

    protected = asgi.protect(app)
    exchange = Exchange(protected, Request(extensions={str(message["type"]): {}}))

    first = await exchange.run()

    assert (first.status, first.body, first.raised) == (201, b"answer", None)
    assert exchange.sent[0] == message
    assert (await send(protected)).brief == (201, None, True)
    assert len(asgi.ledger.rows()) == 1
