"""Acknowledged first: the sender waits for nothing but a commit, and the event is applied once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, cast

import anyio
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.server import (
    ActiveClaim,
    IdempotencyMiddleware,
    Route,
    WSGIIdempotencyMiddleware,
)
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.webhooks.inbox.lifespan import Lifespan
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource
from replayfloor.server.wsgi_capture import StartResponse
from replayfloor.server.wsgi_exchange import Environ, WSGIApp
from server.apps import raising
from server.backends import Backend
from server.hooks import BATCHES, PATH, SHOP, Applying, batch, check, delivery
from server.wire import Answer, send
from server.wire import send as deliver
from server.wsgi_server import ValidatingServer

pytestmark = pytest.mark.anyio

APPLIED_S = 20.0


def receiving(
    handler: Applying,
    source: WebhookSource = SHOP,
    *,
    workers: int = 2,
    app: ASGIApp | None = None,
) -> IdempotencyMiddleware | WSGIIdempotencyMiddleware:
    """Return a middleware whose route acknowledges first."""
    key = webhook(source, verify=check, ack="first")
    backend = handler.backend
    options: MiddlewareOptions = {
        "routes": [Route("POST", PATH, effects=handler.effects, key=key)],
        "inbox_workers": workers,
    }
    urls = {"receipts": backend.receipts_url, "lock": backend.lock_url}
    if backend.is_wsgi:
        made = blocking(handler)
        return WSGIIdempotencyMiddleware(made, principal=None, **urls, **options)
    return IdempotencyMiddleware(app or handler, principal=None, **urls, **options)


def blocking(handler: Applying) -> WSGIApp:
    """Return the same handler over WSGI: workers call it in threads of their own."""

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        body = cast("IO[bytes]", environ["wsgi.input"]).read()
        handler.bodies.append(body)
        told = json.loads(body)
        claim = cast("ActiveClaim", environ["replayfloor.claim"])
        for each in told.get("events", [told]):
            claim.connection.execute(handler.backend.ledger.insert, (each["id"],))
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"applied"]

    return app


@asynccontextmanager
async def live(
    app: IdempotencyMiddleware | WSGIIdempotencyMiddleware,
) -> AsyncIterator[ASGIApp]:
    """Start and stop what a server would."""
    if isinstance(app, WSGIIdempotencyMiddleware):
        try:
            yield ValidatingServer(app)
        finally:
            await anyio.to_thread.run_sync(app.close)
        return
    async with Lifespan(app):
        yield app


async def applied(backend: Backend, rows: Sequence[str]) -> None:
    """Wait until the ledger has exactly these rows."""
    until = time.monotonic() + APPLIED_S
    while sorted(backend.ledger.rows()) != sorted(rows):
        assert time.monotonic() < until, backend.ledger.rows()
        await anyio.sleep(0.02)


def left(backend: Backend) -> list[tuple[object, ...]]:
    """Return what is in the inbox."""
    return backend.ledger.run("select event_id, state, attempts from replayfloor.inbox")


def brief(answers: Sequence[Answer]) -> list[tuple[int, bool]]:
    """Return the statuses, and whether each is a replay."""
    return [(each.status, each.replayed) for each in answers]


async def test_an_event_is_acknowledged_before_it_is_applied_and_applied_once(
    postgres: Backend,
) -> None:
    backend = postgres
    async with live(receiving(Applying(backend), workers=0)) as accepting:
        answers = [await send(accepting, delivery()) for _ in range(3)]
        waiting = left(backend)
    rows = backend.ledger.rows()
    async with live(receiving(Applying(backend))) as app:
        # Over WSGI the workers begin with the first request: a server may fork before.
        await send(app, delivery())
        await applied(backend, ["evt_1"])
        again = await send(app, delivery())

    assert brief(answers) == [(202, False), (202, True), (202, True)]
    assert waiting == [("evt_1", "waiting", 0)]
    assert rows == []
    assert brief([again]) == [(202, True)]
    assert left(backend) == []


async def test_a_handler_that_fails_is_run_again_by_the_workers_and_not_by_its_sender(
    asgi_postgres: Backend,
) -> None:
    backend = asgi_postgres
    handler = Applying(backend, statuses=[500])
    async with live(receiving(handler)) as app:
        answer = await send(app, delivery())
        until = time.monotonic() + APPLIED_S
        while not handler.bodies or left(backend)[0][2] != 1:
            assert time.monotonic() < until
            await anyio.sleep(0.02)
        rows = backend.ledger.rows()
        backend.ledger.run("update replayfloor.inbox set due_at = now()")
        await applied(backend, ["evt_1"])

    assert brief([answer]) == [(202, False)]
    assert rows == []
    assert len(handler.bodies) == 2


async def test_workers_work_while_the_application_does_and_not_before_it_has_started(
    asgi_postgres: Backend,
) -> None:
    """What a handler needs is made by the application's start, and gone after its end."""
    backend, seen = asgi_postgres, list[str]()
    handler = Applying(backend)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            seen.append("applied")
            await handler(scope, receive, send)
            return
        await receive()
        await anyio.sleep(0.3)  # longer than a worker takes to look into its inbox
        seen.append("started")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        seen.append("stopping")
        await send({"type": "lifespan.shutdown.complete"})

    async with live(receiving(handler, workers=0)) as accepting:
        await deliver(accepting, delivery())
    async with live(receiving(handler, app=app)):
        await applied(backend, ["evt_1"])

    assert seen == ["started", "applied", "stopping"]


async def test_a_forgery_is_not_stored(postgres: Backend) -> None:
    async with live(receiving(Applying(postgres), workers=0)) as app:
        forged = delivery().but(headers=[])
        answer = await send(app, forged)

    assert answer.status == 401
    assert left(postgres) == []


async def test_the_events_of_a_batch_are_stored_and_applied_one_by_one(
    postgres: Backend,
) -> None:
    backend = postgres
    handler = Applying(backend)
    async with live(receiving(handler, BATCHES)) as app:
        answers = [await send(app, batch(*names)) for names in ("ab", "bc")]
        await applied(backend, ["a", "b", "c"])

    assert [each.status for each in answers] == [202, 202]
    assert len(handler.bodies) == 3


async def test_if_the_event_cannot_be_stored_it_is_not_acknowledged(
    asgi_postgres: Backend,
) -> None:
    backend = asgi_postgres
    backend.ledger.run("alter table replayfloor.inbox add constraint refused check (false)")
    try:
        async with live(receiving(Applying(backend), workers=0)) as app:
            refused = await send(app, delivery())
            backend.ledger.run("alter table replayfloor.inbox drop constraint refused")
            answer = await send(app, delivery())
    finally:
        backend.ledger.run("alter table replayfloor.inbox drop constraint if exists refused")

    assert refused.status == 500
    assert brief([answer]) == [(202, False)]
    assert [row[0] for row in left(backend)] == ["evt_1"]


@pytest.mark.parametrize("make", [IdempotencyMiddleware, WSGIIdempotencyMiddleware])
def test_sqlite_has_no_inbox(make: type[IdempotencyMiddleware]) -> None:
    route = Route("POST", PATH, key=webhook(SHOP, verify=None, ack="first"))
    with pytest.raises(ConfigurationError, match="Postgres only"):
        make(
            raising(RuntimeError()),  # type: ignore[arg-type]
            receipts="sqlite:////nowhere/receipts.db",
            principal=None,
            routes=[route],
        )
