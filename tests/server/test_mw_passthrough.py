"""Which requests are protected: by method, and by route."""

from __future__ import annotations

import pytest

from replayfloor.server import Route
from server.apps import LedgerApp
from server.backends import Backend
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio


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
