"""The requests that a batch is handed on in, and the one answer that its sender gets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO, cast

import anyio
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.server import Route
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.apps import read_body
from server.backends import Backend
from server.hooks import BATCHES, PATH, Applying, batch, check, receiving
from server.wire import Exchange, send
from server.wsgi_server import Environ, StartResponse, environ_of

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)
HANG_S = 3.0


@dataclass
class Lingering:
    """Answers, and then waits for the client to be gone, as ASGI lets an application do."""

    backend: Backend
    ends: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        self.ends.append((await receive())["type"])


@dataclass
class Listening(Lingering):
    """Begins to wait for that before it answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)

        async def listen() -> None:
            self.ends.append((await receive())["type"])

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})


def serving(app: ASGIApp, backend: Backend) -> ASGIApp:
    """Return a worker that receives batches with an application."""
    route = Route("POST", PATH, effects="external", key=webhook(BATCHES, verify=check))
    return backend.protect(app, routes=[route])


@pytest.mark.parametrize("kind", [Lingering, Listening])
async def test_an_application_that_waits_for_the_end_of_its_request_does_not_hold_up_a_batch(
    asgi_sqlite: Backend, kind: type[Lingering]
) -> None:
    handler = kind(asgi_sqlite)
    with anyio.fail_after(HANG_S):
        answer = await send(serving(handler, asgi_sqlite), batch("a", "b"))

    assert answer.brief == FRESH
    assert handler.ends == ["http.disconnect"] * 2


@dataclass
class FailingLate:
    """Answers a success, and fails after that."""

    backend: Backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        raise RuntimeError("in the background")


async def test_what_fails_after_the_answers_of_a_batch_does_not_make_them_failures(
    sqlite: Backend,
) -> None:
    app = serving(FailingLate(sqlite), sqlite)
    answers = [await send(app, batch("a", "b")) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]


@pytest.mark.parametrize(
    ("statuses", "answered"),
    [([400, 503], 503), ([503, 400], 503), ([410, 429, 404], 429), ([302, 200], 302)],
)
async def test_a_failure_that_passes_is_the_answer_to_a_batch_before_one_that_stays(
    sqlite: Backend, statuses: list[int], answered: int
) -> None:
    """Told 410, a sender would not deliver again what only had to wait."""
    handler = Applying(sqlite, statuses=list(statuses))
    names = [f"e{number}" for number in range(len(statuses))]

    assert (await send(receiving(handler, BATCHES), batch(*names))).status == answered
    assert len(handler.bodies) == len(statuses)


async def test_a_batch_is_answered_whole_although_its_answers_are_too_large_to_keep(
    sqlite: Backend,
) -> None:
    app = receiving(Applying(sqlite), BATCHES, response_bytes_max=3)
    answers = [await send(app, batch("a", "b")) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]
    assert [each.body for each in answers] == [b"applied", b""]
    assert [each.complete for each in answers] == [True, True]
    assert sqlite.ledger.rows() == ["a", "b"]


async def test_a_repetition_within_a_batch_is_handed_on_once(sqlite: Backend) -> None:
    handler = Applying(sqlite)
    answer = await send(receiving(handler, BATCHES), batch("a", "a", "b", "a"))

    assert answer.brief == FRESH
    assert sqlite.ledger.rows() == ["a", "b"]


@dataclass
class Looking:
    """Answers, and keeps what it sees of each request."""

    backend: Backend
    lengths: list[tuple[bytes | None, int]] = field(default_factory=list)
    notes: list[object] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        body = await read_body(receive)
        announced = dict(scope["headers"]).get(b"content-length")
        self.lengths.append((announced, len(body)))
        self.notes.append(scope["state"].get("pool"))
        scope["state"]["pool"] = "changed by the handler of another event"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("names", [("a", "bb", "c"), ("a", "a")])
async def test_each_request_of_a_batch_has_the_length_of_its_own_body(
    sqlite: Backend, names: tuple[str, ...]
) -> None:
    handler = Looking(sqlite)
    whole = batch(*names)
    length = (b"content-length", str(sum(map(len, whole.chunks))).encode())
    sized = whole.but(headers=[*whole.headers, length])

    answer = await send(serving(handler, sqlite), sized)

    assert answer.status == 204
    assert [int(announced or b"-1") for announced, _ in handler.lengths] == [
        size for _, size in handler.lengths
    ]


async def test_each_request_of_a_batch_has_the_state_of_the_lifespan_and_no_others(
    asgi_sqlite: Backend,
) -> None:
    handler = Looking(asgi_sqlite)
    request = batch("a", "b")
    scope = request.scope()
    scope["state"] = {"pool": "of the lifespan"}

    await Exchange(serving(handler, asgi_sqlite), request).run(scope)

    assert handler.notes == ["of the lifespan"] * 2
    assert "idempotency" not in scope["state"]


def test_over_wsgi_what_a_handler_notes_in_its_environ_is_not_seen_with_the_next_event(
    tmp_path: Path,
) -> None:
    seen: list[tuple[object, bytes]] = []

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        body = cast("IO[bytes]", environ["wsgi.input"]).read()
        seen.append((environ.get("noted"), body))
        environ["noted"] = "by the handler of another event"
        start_response("200 OK", [])
        return [b"ok"]

    route = Route("POST", PATH, effects="external", key=webhook(BATCHES, verify=check))
    middleware = WSGIIdempotencyMiddleware(
        app, receipts=f"sqlite:///{tmp_path}/receipts.db", principal=None, routes=[route]
    )
    request = batch("a", "b")
    environ = environ_of(request.scope(), BytesIO(b"".join(request.chunks)))

    list(middleware(environ, lambda *_: lambda _data: None))
    middleware.close()

    assert [noted for noted, _ in seen] == [None, None]
    assert [json.loads(body)["events"][0]["id"] for _, body in seen] == ["a", "b"]
    assert "replayfloor.claim" not in environ
