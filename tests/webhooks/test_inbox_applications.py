"""What handlers may do under a worker: background work, own transactions, what a server allows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO, cast

import anyio
import psycopg
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import UsageError
from replayfloor.server import ActiveClaim, AsyncActiveClaim
from replayfloor.server.events import ServerEvent
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.apply import APPLIED
from replayfloor.server.webhooks.inbox.options import WorkerOptions
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers
from webhooks.inbox_crews import FAST, Handler, crew, item
from webhooks.inboxes import INSERT, Database, until

pytestmark = pytest.mark.anyio

Endpoint = Callable[[Request], Awaitable[Response]]


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An inbox with one event."""
    database = Database(inbox_url)
    database.put(item("evt_1"))
    return database


async def applied(
    database: Database,
    app: ASGIApp,
    effects: Effects = Effects.ATOMIC,
    state: dict[str, object] | None = None,
    *,
    attempts: int = 1,
) -> list[ServerEvent]:
    """Apply what is there; return what was told."""
    told: list[ServerEvent] = []
    options: WorkerOptions = {**FAST, "attempts_max": attempts, "on_event": told.append}
    workers = AsyncInboxWorkers(database.url, app, lambda _item: effects, **options)
    await workers.start(state)
    await until(lambda: len(told) >= attempts)
    await workers.stop()
    return told


def served(endpoint: Endpoint) -> Starlette:
    """Return an application with one endpoint."""
    return Starlette(routes=[Route("/hooks/{name}", endpoint, methods=["POST"])])


def claim_of(request: Request) -> AsyncActiveClaim:
    """Return the claim where every handler finds it."""
    claim: AsyncActiveClaim = request.state.idempotency
    return claim


async def test_an_application_of_starlette_gets_body_path_query_and_state(
    database: Database,
) -> None:
    seen: list[object] = []

    async def endpoint(request: Request) -> Response:
        body = await request.json()
        seen.extend([body, request.path_params["name"], request.query_params.getlist("a")])
        seen.extend([request.headers.getlist("x-twice"), request.state.pool, request.url.scheme])
        await claim_of(request).connection.execute(INSERT, ("evt_1", ""))
        return JSONResponse({}, 201)

    await applied(database, served(endpoint), state={"pool": "the pool"})

    expected = [{"id": "evt_1"}, "café", [" ", "2"], ["1", "\xff"], "the pool", "https"]
    assert seen == expected
    assert database.applied() == ["evt_1"]


async def test_background_work_begins_after_the_commit(database: Database) -> None:
    seen: list[list[str]] = []

    async def endpoint(request: Request) -> Response:
        await claim_of(request).connection.execute(INSERT, ("evt_1", ""))
        return Response(status_code=204, background=BackgroundTask(look))

    def look() -> None:
        seen.append(database.applied())

    await applied(database, served(endpoint))

    assert seen == [["evt_1"]]


async def test_a_streamed_answer_counts_when_it_is_complete(database: Database) -> None:
    async def endpoint(request: Request) -> Response:
        connection = claim_of(request).connection

        async def chunks() -> AsyncIterator[bytes]:
            yield b"1"
            await connection.execute(INSERT, ("evt_1", ""))
            yield b"2"

        return StreamingResponse(chunks())

    await applied(database, served(endpoint))

    assert database.applied() == ["evt_1"]


async def test_an_exception_behind_a_500_is_named(database: Database) -> None:
    async def endpoint(_request: Request) -> Response:
        raise LookupError("a secret")

    await applied(database, served(endpoint))

    assert database.left() == {"evt_1": ("dead", 1, "status 500 after LookupError")}


async def test_a_failure_after_the_answer_changes_nothing(database: Database) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        claim: AsyncActiveClaim = scope["state"]["idempotency"]
        await claim.connection.execute(INSERT, ("evt_1", ""))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})
        with pytest.raises(UsageError):
            await claim.connection.execute(INSERT, ("late", ""))
        raise RuntimeError("after the answer")

    (told,) = await applied(database, app)

    assert told.kind is APPLIED
    assert database.applied() == ["evt_1"]


async def test_an_application_that_returns_without_an_answer_has_failed(
    database: Database,
) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        return

    await applied(database, app)

    assert database.left() == {"evt_1": ("dead", 1, "UsageError")}


async def test_a_client_that_is_asked_whether_it_is_gone_is_there_until_the_answer(
    database: Database,
) -> None:
    async def endpoint(request: Request) -> Response:
        assert not await request.is_disconnected()
        return Response()

    (told,) = await applied(database, served(endpoint), Effects.EXTERNAL)

    assert told.kind is APPLIED


# -- transactions of the handler's own -------------------------------------------------------------


async def test_an_event_can_be_finished_in_a_transaction_of_the_handlers_own(
    database: Database,
) -> None:
    async def endpoint(request: Request) -> Response:
        answer = Response()
        async with await psycopg.AsyncConnection.connect(database.url) as own:
            await own.execute(INSERT, ("evt_1", ""))
            await claim_of(request).finish_in(own, answer)
        return answer

    (told,) = await applied(database, served(endpoint), Effects.REPEATABLE)

    assert told.kind is APPLIED
    assert database.left() == {}
    assert database.applied() == ["evt_1"]


async def test_one_whose_own_transaction_was_rolled_back_is_not_gone(database: Database) -> None:
    async def endpoint(request: Request) -> Response:
        answer = Response()
        async with await psycopg.AsyncConnection.connect(database.url) as own:
            await claim_of(request).finish_in(own, answer)
            await own.rollback()
        return answer

    await applied(database, served(endpoint), Effects.REPEATABLE)

    ((state, _attempts, error),) = database.left().values()
    assert state == "dead"
    assert "not committed" in str(error)


def test_a_wsgi_handler_finishes_in_a_transaction_of_its_own(database: Database) -> None:
    told: list[ServerEvent] = []

    def app(environ: dict[str, object], start_response: Callable[..., object]) -> list[bytes]:
        claim = cast("ActiveClaim", environ["replayfloor.claim"])
        assert cast("IO[bytes]", environ["wsgi.input"]).read() == b'{"id": "evt_1"}'
        with psycopg.connect(database.url) as own:
            own.execute(INSERT.encode(), ("evt_1", ""))
            claim.finish_in(own, (200, (), b"ok"))
        start_response("200 OK", [])
        return [b"ok"]

    options: WorkerOptions = {**FAST, "on_event": told.append}
    with InboxWorkers(database.url, app, lambda _item: Effects.EXTERNAL, **options):
        anyio.run(until, lambda: told)

    assert told[0].kind is APPLIED
    assert database.applied() == ["evt_1"]


async def test_what_a_wsgi_application_closes_is_closed_after_the_commit(
    database: Database,
) -> None:
    seen: list[list[str]] = []
    handler = Handler(database)

    class Answer(list[bytes]):
        def close(self) -> None:
            seen.append(database.applied())

    def app(environ: dict[str, object], start_response: Callable[..., object]) -> Answer:
        return Answer(handler.wsgi(environ, start_response))

    closing = Handler(database)
    closing.wsgi = app  # type: ignore[method-assign]
    async with crew("wsgi", closing):
        await until(lambda: seen)

    assert seen == [["evt_1"]]


async def test_a_route_that_is_gone_loses_no_event(database: Database) -> None:
    told: list[ServerEvent] = []
    handler = Handler(database)
    options: WorkerOptions = {**FAST, "attempts_max": 2, "on_event": told.append}
    workers = AsyncInboxWorkers(database.url, handler.asgi, lambda _item: None, **options)
    async with workers:
        await until(lambda: len(told) == 2)

    assert handler.called == []
    ((state, attempts, error),) = database.left().values()
    assert (state, attempts) == ("dead", 2)
    assert "no route" in str(error)
