"""Work after the answer (background tasks, `close()`): it neither delays the answer nor puts its
receipt at risk."""

from __future__ import annotations

import anyio
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp

from replayfloor.core.errors import UsageError
from server.apps import Gate, Hook
from server.backends import Backend, EffectsOption
from server.wire import Answer, Exchange, Request, send

pytestmark = pytest.mark.anyio

both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])


def app_with(backend: Backend, effects: EffectsOption, task: Hook) -> ASGIApp:
    async def endpoint(request: StarletteRequest) -> Response:
        if effects == "atomic":
            await backend.ledger.write_in(request.state.idempotency.connection)
        else:
            backend.ledger.write()
        return Response("done", 201, background=BackgroundTask(task))

    return Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])


@both_effects
async def test_a_background_task_delays_neither_the_answer_nor_its_replay(
    backend: Backend, effects: EffectsOption
) -> None:
    gate = Gate()
    app = backend.protect(app_with(backend, effects, gate), effects=effects)
    exchange = Exchange(app, Request())
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run)
        with anyio.fail_after(5):
            await exchange.answered.wait()
            await gate.entered.wait()
            answers.append(await send(app))
        gate.opened.set()

    assert exchange.answer().brief == (201, None, False)
    assert [each.brief for each in answers] == [(201, None, True)]
    assert len(backend.ledger.rows()) == 1


@both_effects
async def test_a_background_task_that_raises_does_not_lose_the_receipt(
    backend: Backend, effects: EffectsOption
) -> None:
    runs: list[int] = []

    async def task() -> None:
        runs.append(1)
        raise RuntimeError("in the background")

    app = backend.protect(app_with(backend, effects, task), effects=effects)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, str(first.raised)) == ((201, None, False), "in the background")
    assert again.brief == (201, None, True)
    assert len(runs) == len(backend.ledger.rows()) == 1


async def test_the_claims_connection_is_refused_after_the_answer(backend: Backend) -> None:
    errors: list[str] = []

    async def endpoint(request: StarletteRequest) -> Response:
        claim = request.state.idempotency
        await backend.ledger.write_in(claim.connection)

        async def task() -> None:
            try:
                await backend.ledger.write_in(claim.connection, "late")
            except UsageError as error:
                errors.append(str(error))

        return Response("done", 201, background=BackgroundTask(task))

    app = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])

    await send(backend.protect(app, effects="atomic"))

    assert len(errors) == 1
    assert "ended" in errors[0]
    assert backend.ledger.rows() == ["atomic"]


async def test_a_connection_kept_beyond_the_answer_spoils_no_later_operation(
    backend: Backend,
) -> None:
    """The worst of a handler's mistakes: what it writes late must not hold back, or undo, what
    another request was told is done."""
    kept: list[object] = []

    async def endpoint(request: StarletteRequest) -> Response:
        connection = request.state.idempotency.connection
        await backend.ledger.write_in(connection, request.headers["idempotency-key"])

        async def task() -> None:
            if not kept:
                kept.append(connection)
                try:
                    await backend.ledger.write_in(connection, "late")
                except UsageError:
                    return

        return Response("done", 201, background=BackgroundTask(task))

    inner = Starlette(routes=[Endpoint("/pay", endpoint, methods=["POST"])])
    app = backend.protect(inner, effects="atomic")

    answers = [await send(app, Request(key=key)) for key in (b'"a"', b'"b"', b'"c"')]

    promised = [each.status for each in answers].count(201)
    entries = [entry for entry in backend.ledger.rows() if entry != "late"]
    assert len(entries) == promised
    assert {each.status for each in answers} == {201}
