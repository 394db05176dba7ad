"""A duplicate after completion: the same answer, marked as a replay; the handler does not run."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route as Endpoint

from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.wire import Request, send

pytestmark = pytest.mark.anyio

EVERY_BYTE = bytes(range(256))
KEPT: Sequence[tuple[bytes, bytes]] = (
    (b"content-type", b"application/octet-stream"),
    (b"location", b"/payments/1"),
    (b"etag", b'W/"1"'),
    (b"link", b'<a>; rel="next"'),
    (b"link", b'<b>; rel="prev"'),
    (b"vary", b"accept, origin"),
    (b"content-disposition", b'attachment; filename="a,b.txt"'),
    (b"content-language", b"de"),
    (b"x-latin", b"caf\xe9"),
)
DROPPED: Sequence[tuple[bytes, bytes]] = (
    (b"set-cookie", b"session=1"),
    (b"date", b"Mon, 30 Nov 2026 00:00:00 GMT"),
    (b"connection", b"x-hop"),
    (b"x-hop", b"1"),
    (b"content-length", b"256"),
)
both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])


@both_effects
async def test_a_replay_has_status_body_and_every_header_line_of_the_first_answer(
    backend: Backend, effects: EffectsOption
) -> None:
    halves = (EVERY_BYTE[:100], EVERY_BYTE[100:])
    inner = LedgerApp(backend, effects, headers=[*DROPPED, *KEPT], bodies=halves)
    app = backend.protect(inner, effects=effects)

    first, *replays = [await send(app) for _ in range(3)]

    assert (first.replayed, first.body) == (False, EVERY_BYTE)
    for replay in replays:
        assert (replay.status, replay.body, replay.complete) == (201, EVERY_BYTE, True)
        own = {b"idempotent-replayed": b"true", b"content-length": b"256"}
        assert [pair for pair in replay.headers if pair[0] not in own] == list(KEPT)
        assert {name: replay.all(name) for name in own} == {k: [v] for k, v in own.items()}
    assert len(backend.ledger.rows()) == 1


@both_effects
async def test_a_replay_survives_the_worker_and_the_loss_of_the_lock(
    backend: Backend, effects: EffectsOption
) -> None:
    inner = LedgerApp(backend, effects)
    await send(backend.protect(inner, effects=effects))
    await backend.close()

    again = await send(backend.protect(inner, effects=effects, lock="local"))

    assert again.brief == (201, None, True)
    assert len(backend.ledger.rows()) == 1


@both_effects
@pytest.mark.parametrize("status", [200, 201, 204, 205, 303, 304])
async def test_an_empty_body_is_an_answer_like_any_other(
    backend: Backend, effects: EffectsOption, status: int
) -> None:
    inner = LedgerApp(backend, effects, status, headers=(), bodies=(b"",))
    app = backend.protect(inner, effects=effects)

    first, replay = [await send(app) for _ in range(2)]

    assert (first.status, first.body) == (replay.status, replay.body) == (status, b"")
    assert replay.first(b"content-length") in (None, b"0")
    assert status not in (204, 205, 304) or replay.first(b"content-length") is None
    assert replay.replayed
    assert len(backend.ledger.rows()) == 1


async def test_a_replay_advertises_the_lifetime_once(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), retention=86_400)

    _first, replay = [await send(app) for _ in range(2)]

    assert replay.all(b"idempotency-key-lifetime") == [b"86400"]


@pytest.mark.parametrize("order", ["gzip outside", "gzip inside"])
async def test_a_client_decodes_a_replay_of_a_compressed_answer(
    backend: Backend, order: str
) -> None:
    async def endpoint(request: StarletteRequest) -> Response:
        backend.ledger.write()
        return Response("x" * 5000, 201, headers={"location": "/payments/1"})

    inner = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])
    app = (
        GZipMiddleware(backend.protect(inner))
        if order == "gzip outside"
        else backend.protect(GZipMiddleware(inner))
    )
    headers = {"Idempotency-Key": '"k"', "Accept-Encoding": "gzip"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answers = [await client.post("/pay", headers=headers) for _ in range(2)]

    assert [(answer.status_code, answer.text) for answer in answers] == [(201, "x" * 5000)] * 2
    assert {answer.headers["content-encoding"] for answer in answers} == {"gzip"}
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true"]
    assert len(backend.ledger.rows()) == 1


async def test_a_starlette_endpoint_finds_its_claim_and_its_204_is_replayed(
    backend: Backend,
) -> None:
    async def endpoint(request: StarletteRequest) -> Response:
        await backend.ledger.write_in(request.state.idempotency.connection)
        return Response(status_code=204, headers={"etag": '"1"'})

    inner = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])
    app = backend.protect(inner, effects="atomic")

    first, replay = [await send(app) for _ in range(2)]

    assert (first.status, replay.status, replay.first(b"etag")) == (204, 204, b'"1"')
    assert (first.replayed, replay.replayed) == (False, True)
    assert backend.ledger.rows() == ["atomic"]


async def test_a_replay_is_addressed_by_key_whatever_the_other_headers_are(
    backend: Backend,
) -> None:
    app = backend.protect(LedgerApp(backend))

    await send(app, Request(headers=[(b"user-agent", b"a"), (b"x-request-id", b"1")]))
    again = await send(app, Request(headers=[(b"user-agent", b"b"), (b"x-request-id", b"2")]))

    assert again.replayed
    assert len(backend.ledger.rows()) == 1
