"""ASGI and WSGI on the same stores: a key is one operation, whichever side its requests come to."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)

REQUESTS = [
    Request(),
    Request(query=b"a=%C3%A9&b=1"),
    Request(path="/p\u00e4y/a b/c+d"),
    Request(chunks=()),
    Request(chunks=(b'{"a": 1, ', b'"b": 2}')),
    Request(chunks=(b"a=1&b=2",), content_type=b"application/x-www-form-urlencoded"),
    Request(chunks=(b"x" * 2_000_000,), content_type=b"application/octet-stream"),
    Request(headers=[(b"content-length", b"13")]),
]


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("first", ["asgi", "wsgi"])
async def test_a_request_that_was_answered_on_one_side_is_replayed_on_the_other(
    asgi_sqlite: Backend, first: str, request_: Request
) -> None:
    sides = [asgi_sqlite, replace(asgi_sqlite, side="wsgi")]
    if first == "wsgi":
        sides.reverse()
    apps = [side.protect(LedgerApp(side), body_bytes_max=3_000_000) for side in sides]

    answers = [await send(app, request_) for app in apps]
    await sides[0].close()
    await sides[1].close()

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert answers[0].body == answers[1].body
    assert len(asgi_sqlite.ledger.rows()) == 1


async def test_a_request_in_flight_on_one_side_is_in_flight_on_the_other(
    asgi_postgres: Backend,
) -> None:
    gate = Gate()
    wsgi = replace(asgi_postgres, side="wsgi")
    held = wsgi.protect(LedgerApp(wsgi, after=gate))
    other = asgi_postgres.protect(LedgerApp(asgi_postgres))
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(send, held)
        await gate.entered.wait()
        answers.append(await send(other))
        gate.opened.set()
    answers.append(await send(other))
    await wsgi.close()

    assert [each.brief for each in answers] == [(409, ProblemKind.IN_FLIGHT, False), REPLAY]
    assert len(asgi_postgres.ledger.rows()) == 1
