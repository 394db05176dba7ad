"""The lifetime is advertised in every answer, and a client that obeys it is never too late.

Both ends are real, on sockets, and so is the time; receipts are dropped the moment they expire.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import httpx
import pytest
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from replayfloor.client import (
    IdempotentTransport,
    MemoryJournal,
    OutcomeUndetermined,
    OutcomeUnknown,
    RetryPolicy,
    profile,
)
from replayfloor.core.problem import ProblemKind
from replayfloor.core.uuid7 import uuid7
from replayfloor.server import idempotent
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.doubles import unavailable, watched_receipts
from server.wire import KEY, Answer, Request, send

pytestmark = pytest.mark.anyio

RETENTION_S = 2.0
LIFETIME = b"idempotency-key-lifetime"
HOST = "127.0.0.1"
PATIENCE_S = 10.0
RETRY = RetryPolicy(attempts_max=1000, wait_base_s=0.25, wait_cap_s=0.25, budget_s=20)
"""Slow enough for the budget that a client has for retries at an origin that fails."""


# -- every answer ---------------------------------------------------------------------------------


async def test_every_answer_to_a_key_advertises_the_lifetime_once(backend: Backend) -> None:
    gate = Gate()
    inner = LedgerApp(backend, before=gate)
    app = backend.protect(inner, retention=60, required=True, body_bytes_max=100)
    answers: dict[str, Answer] = {}

    async def first() -> None:
        answers["first"] = await send(app)

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await gate.entered.wait()
        answers["in flight"] = await send(app)
        gate.opened.set()
    answers["replay"] = await send(app)
    answers["reused"] = await send(app, Request(chunks=(b"{}",)))
    answers["malformed"] = await send(app, Request(key=b"none"))
    answers["missing"] = await send(app, Request(key=None))
    answers["too large"] = await send(app, Request(key=b'"large"', chunks=(b"x" * 101,)))
    old = f'"{uuid7(1_000_000_000_000, bytes(10))}"'.encode()
    answers["expired"] = await send(app, Request(key=old))
    inner.status = 503
    answers["freed"] = await send(app, Request(key=b'"freed"'))
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = unavailable(10)
    away = backend.protect(inner, receipts=receipts, retention=60)
    answers["unavailable"] = await send(away, Request(key=b'"away"'))

    statuses = [each.status for each in answers.values()]
    assert statuses == [409, 201, 201, 422, 400, 400, 413, 400, 503, 503]
    assert {name: each.all(LIFETIME) for name, each in answers.items()} == {
        name: [b"60"] for name in answers
    }


async def test_an_answer_without_a_key_says_how_long_a_key_would_live(backend: Backend) -> None:
    """So a client knows before its first key; an operation that takes none says nothing."""
    app = backend.protect(LedgerApp(backend), retention=60)

    assert (await send(app, Request(key=None))).all(LIFETIME) == [b"60"]
    assert (await send(app, Request(method="GET", key=KEY))).all(LIFETIME) == []
    assert (await send(backend.protect(LedgerApp(backend)), Request(key=None))).all(LIFETIME) == []


@idempotent(required=True)
async def decorated(_request: Asked) -> Response:
    """Carry the middleware's options where none of its methods is protected."""
    return JSONResponse({}, 201)


async def test_a_decorated_endpoint_advertises_it_too(asgi_sqlite: Backend) -> None:
    inner = Starlette(routes=[Path("/pay", decorated, methods=["POST"])])
    app = asgi_sqlite.protect(inner, retention=60, methods=())

    answers = [await send(app, Request(key=key)) for key in (KEY, KEY, None)]

    assert [each.status for each in answers] == [201, 201, 400]
    assert [each.all(LIFETIME) for each in answers] == [[b"60"]] * 3


# -- the pair, on sockets -------------------------------------------------------------------------


@dataclass
class Losing(httpx.BaseTransport):
    """The network: requests arrive, and answers are lost, for so long after the first answer."""

    lost_s: float = 0.0
    inner: httpx.HTTPTransport = field(default_factory=httpx.HTTPTransport)
    arrived_at: list[float] = field(default_factory=list[float])

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and perhaps lose its answer."""
        response = self.inner.handle_request(request)
        self.arrived_at.append(time.monotonic())
        if time.monotonic() < self.arrived_at[0] + self.lost_s:
            response.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return response

    def close(self) -> None:
        """Hang up."""
        self.inner.close()


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application; give its address."""
    config = uvicorn.Config(app, ws="none", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with contextlib.closing(socket.create_server((HOST, 0))) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            try:
                yield f"http://{HOST}:{listener.getsockname()[1]}/pay"
            finally:
                server.should_exit = True


@contextmanager
def dropping(backend: Backend) -> Iterator[None]:
    """Drop every receipt as soon as its retention is over, many times a second."""
    over = threading.Event()
    if backend.is_postgres:
        query = "delete from replayfloor.receipts where finished_at < now() - interval '2 s'"
    else:
        query = (
            "delete from replayfloor_receipts"
            " where finished_ms < (julianday('now') - 2440587.5) * 86400000 - 2000"
        )

    def drop() -> None:
        while not over.wait(0.05):
            backend.ledger.run(query)

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def client_of(network: Losing) -> Iterator[httpx.Client]:
    """Give a client that knows of the server only what its answers tell."""
    ours = profile("replayfloor", account="test")
    transport = IdempotentTransport(
        network, profile=ours, journal=MemoryJournal(), retry=RETRY, random=lambda: 0.9
    )
    with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
        yield client


def _post(client: httpx.Client, url: str, operation: str) -> httpx.Response:
    extensions = {"idempotency": {"operation_id": operation}}
    return client.post(url, json={"amount": 1}, extensions=extensions)


one_of_each = pytest.mark.parametrize("backend", ["sqlite-asgi", "postgres-wsgi"], indirect=True)
"""A store and a side of each kind: what is measured here is time."""


@one_of_each
async def test_our_client_learns_the_lifetime_and_stops_before_it(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), retention=RETENTION_S)

    def pay(url: str) -> None:
        network = Losing()
        with client_of(network) as client:
            assert _post(client, url, "first").status_code == 201
            network.lost_s = 60
            began = time.monotonic()
            with pytest.raises(OutcomeUndetermined):
                _post(client, url, "second")
            assert len([at for at in network.arrived_at if at > began]) > 2
            assert network.arrived_at[-1] - began < RETENTION_S
            time.sleep(max(0, began + RETENTION_S + 0.3 - time.monotonic()))
            sent = len(network.arrived_at)
            # The same operation again, after a rest: its key has expired, so nothing is sent.
            with pytest.raises(OutcomeUnknown):
                _post(client, url, "second")
            assert len(network.arrived_at) == sent

    await send(app)  # a file has its tables from now on
    async with served(app) as url:
        with dropping(backend):
            await to_thread.run_sync(pay, url)

    assert len(backend.ledger.rows()) == 1 + 2


@one_of_each
async def test_a_client_that_never_heard_of_the_lifetime_is_refused_after_it(
    backend: Backend,
) -> None:
    """Every answer is lost until the receipt has gone: then the key tells that it is too old."""
    app = backend.protect(LedgerApp(backend), retention=RETENTION_S)

    def pay(url: str) -> None:
        network = Losing(RETENTION_S + 0.5)
        with client_of(network) as client, pytest.raises(OutcomeUnknown) as caught:
            _post(client, url, "only")
        last = caught.value.last_response
        assert last is not None
        assert last.headers["idempotency-key-lifetime"] == "2"
        assert last.json()["type"].endswith(ProblemKind.KEY_EXPIRED.value)
        assert network.arrived_at[-1] - network.arrived_at[0] > RETENTION_S

    await send(app)  # a file has its tables from now on
    async with served(app) as url:
        with dropping(backend):
            await to_thread.run_sync(pay, url)

    assert len(backend.ledger.rows()) == 1 + 1
