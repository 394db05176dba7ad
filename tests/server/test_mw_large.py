"""Answers that are too large, or have no end: passed through, never executed again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp, read_body
from server.backends import Backend, EffectsOption, claim_of
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])
NOT_KEPT = (409, ProblemKind.ANSWER_NOT_KEPT, False)


@both_effects
@pytest.mark.parametrize(
    "bodies", [(b"x" * 101,), (b"x" * 60, b"y" * 41), (b"x" * 60, b"y" * 60, b"z" * 60, b"")]
)
async def test_a_large_answer_passes_through_whole_and_its_retry_is_told_so(
    backend: Backend, effects: EffectsOption, bodies: tuple[bytes, ...]
) -> None:
    inner = LedgerApp(backend, effects, headers=[(b"location", b"/p/1")], bodies=bodies)
    app = backend.protect(inner, effects=effects, response_bytes_max=100)

    first, *retries = [await send(app) for _ in range(3)]

    assert (first.status, first.headers) == (201, ((b"location", b"/p/1"),))
    assert first.body == b"".join(bodies)
    assert [each.brief for each in retries] == [NOT_KEPT] * 2
    assert json.loads(retries[0].body)["original_status"] == 201
    assert len(backend.ledger.rows()) == 1


async def test_an_answer_of_exactly_the_limit_is_kept(backend: Backend) -> None:
    inner = LedgerApp(backend, headers=(), bodies=(b"x" * 60, b"y" * 40))
    app = backend.protect(inner, response_bytes_max=100)

    _first, again = [await send(app) for _ in range(2)]

    assert (again.replayed, again.body) == (True, b"x" * 60 + b"y" * 40)


@pytest.mark.parametrize(("lines", "kept"), [(9, True), (10, True), (11, False)])
async def test_an_answer_with_more_header_lines_than_the_limit_passes_and_is_not_kept(
    backend: Backend, lines: int, kept: bool
) -> None:
    headers = [(b"x-line", b"%d" % n) for n in range(lines)]
    app = backend.protect(LedgerApp(backend, headers=headers), response_headers_max=10)

    first, again = [await send(app) for _ in range(2)]

    assert [pair for pair in first.headers if pair[0] == b"x-line"] == headers
    assert again.brief == ((201, None, True) if kept else NOT_KEPT)
    assert len(backend.ledger.rows()) == 1


async def test_a_large_answer_that_is_not_stored_frees_the_key(backend: Backend) -> None:
    inner = LedgerApp(backend, status=503, headers=(), bodies=(b"x" * 60, b"y" * 60))
    app = backend.protect(inner, response_bytes_max=100)

    first = await send(app)
    inner.status = 201

    assert (first.status, first.body) == (503, b"x" * 60 + b"y" * 60)
    assert (await send(app)).brief == (201, None, False)


async def test_the_first_bytes_of_a_large_answer_do_not_wait_for_its_end(backend: Backend) -> None:
    opened = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        backend.ledger.write()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 200, "more_body": True})
        await opened.wait()
        await send({"type": "http.response.body", "body": b"end"})

    await _first_bytes_come_at_once(backend, app, opened)


async def test_the_first_bytes_of_an_event_stream_are_passed_on_at_once(backend: Backend) -> None:
    opened = anyio.Event()

    async def events() -> AsyncIterator[str]:
        yield "data: 1\n\n"
        await opened.wait()
        yield "data: 2\n\n"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        backend.ledger.write()
        stream = StreamingResponse(events(), media_type="text/event-stream")
        await stream(scope, receive, send)

    await _first_bytes_come_at_once(backend, app, opened)


async def _first_bytes_come_at_once(
    backend: Backend, app: Callable[[Scope, Receive, Send], Awaitable[None]], opened: anyio.Event
) -> None:
    protected = backend.protect(app, response_bytes_max=100)
    exchange = Exchange(protected, Request())
    in_time = False

    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run)
        with anyio.move_on_after(3):
            await exchange.first_byte.wait()
            in_time = True
        opened.set()

    assert in_time
    assert exchange.answer().complete
    assert (await send(protected)).brief == NOT_KEPT
    assert len(backend.ledger.rows()) == 1


async def test_a_large_answer_that_breaks_off_is_not_executed_again(backend: Backend) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        backend.ledger.write()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 200, "more_body": True})
        raise RuntimeError("in the middle")

    protected = backend.protect(app, response_bytes_max=100)

    first = await send(protected)

    assert (first.status, first.complete, str(first.raised)) == (200, False, "in the middle")
    assert (await send(protected)).brief == NOT_KEPT
    assert len(backend.ledger.rows()) == 1


async def test_a_small_answer_that_breaks_off_is_a_failure_and_is_never_shown(
    backend: Backend,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await backend.ledger.write_in(claim_of(scope).connection)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("in the middle")

    exchange = Exchange(backend.protect(app, effects="atomic"), Request())

    answer = await exchange.run()

    assert (exchange.sent, str(answer.raised)) == ([], "in the middle")
    assert backend.ledger.rows() == []
