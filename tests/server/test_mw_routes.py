"""Options of one route: statuses it stores or frees, its lease, its patience."""

from __future__ import annotations

import anyio
import pytest
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from server.apps import Gate, Killed, LedgerApp, raising
from server.backends import Backend, EffectsOption
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
OTHER = Request(path="/other", key=b'"other"')
every_effect = pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])


@every_effect
async def test_a_status_that_a_route_stores_is_replayed_and_its_effect_stands(
    backend: Backend, effects: EffectsOption
) -> None:
    routes = [Route("POST", "/pay", effects=effects, store=[503])]
    app = backend.protect(LedgerApp(backend, effects, 503), routes=routes, effects=effects)

    answers = [(await send(app)).brief for _ in range(2)]
    others = [(await send(app, OTHER)).brief for _ in range(2)]

    assert answers == [(503, None, False), (503, None, True)]
    assert others == [(503, None, False)] * 2
    # Of the other route nothing stands if it was atomic.
    assert len(backend.ledger.rows()) == 1 + (0 if effects == "atomic" else 2)


@every_effect
async def test_a_status_that_a_route_frees_is_not_replayed_and_an_atomic_effect_is_undone(
    backend: Backend, effects: EffectsOption
) -> None:
    routes = [Route("POST", "/pay", effects=effects, free=[409])]
    inner = LedgerApp(backend, effects, 409)
    app = backend.protect(inner, routes=routes)

    first = await send(app)
    inner.status = 201
    cured, again = [await send(app) for _ in range(2)]

    assert [each.brief for each in (first, cured, again)] == [(409, None, False), FRESH, REPLAY]
    assert len(backend.ledger.rows()) == (1 if effects == "atomic" else 2)


async def test_what_the_middleware_says_of_statuses_holds_where_a_route_says_nothing(
    backend: Backend,
) -> None:
    routes = [Route("POST", "/pay", store=())]
    app = backend.protect(LedgerApp(backend, status=503), routes=routes, store=[503], free=[404])

    here = [(await send(app)).replayed for _ in range(2)]
    elsewhere = [(await send(app, OTHER)).replayed for _ in range(2)]

    assert (here, elsewhere) == ([False, False], [False, True])


async def test_a_route_has_its_own_lease(backend: Backend) -> None:
    routes = [Route("POST", "/pay", lease_s=0.1)]
    app = backend.protect(LedgerApp(backend, after=raising(Killed())), routes=routes, lease_s=60.0)
    for request in (Request(), OTHER):
        with pytest.raises(Killed):
            await send(app, request)
    await anyio.sleep(0.15)

    here, elsewhere = [await send(app, request) for request in (Request(), OTHER)]

    assert here.problem is ProblemKind.OUTCOME_UNKNOWN
    assert elsewhere.brief == IN_FLIGHT
    assert elsewhere.first(b"retry-after") in (b"60", b"59")


async def test_a_route_has_its_own_patience(backend: Backend) -> None:
    routes = [Route("POST", "/pay", wait_for_s=10.0)]
    gates = [Gate(), Gate()]
    apps = [backend.protect(LedgerApp(backend, after=gate), routes=routes) for gate in gates]
    answers: dict[str, Answer] = {}

    async def collect(name: str, app: ASGIApp, request: Request) -> None:
        answers[name] = await send(app, request)

    async with anyio.create_task_group() as group:
        for app, request, gate in zip(apps, (Request(), OTHER), gates, strict=True):
            group.start_soon(collect, "first " + request.path, app, request)
            await gate.entered.wait()
        group.start_soon(collect, "patient", apps[0], Request())
        with anyio.fail_after(5):
            await collect("impatient", apps[1], OTHER)
        assert "patient" not in answers
        for gate in gates:
            gate.opened.set()

    assert answers["impatient"].brief == IN_FLIGHT
    assert answers["patient"].brief == REPLAY
    assert len(backend.ledger.rows()) == 2
