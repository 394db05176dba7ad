"""Authentication around the middleware, which tells it whose a key is, and inside of it."""

from __future__ import annotations

import anyio
import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import watched_lock, watched_receipts
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
REUSED = (422, ProblemKind.KEY_REUSED, False)
TOKENS = {b"Bearer one": b"user-1", b"Bearer two": b"user-2", b"Bearer one-renewed": b"user-1"}


class Authentication:
    """Lets those in whose token is known, and says who they are; the others get a 401."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tokens = [value for name, value in scope["headers"] if name == b"authorization"]
        user = TOKENS.get(tokens[0]) if tokens else None
        if user is None:
            await Response("who are you?", 401)(scope, receive, send)
            return
        scope["headers"] = [*scope["headers"], (b"x-user", user)]
        await self._app(scope, receive, send)


def user_of(scope: Scope) -> str:
    """Return whom the authentication has found; nobody else sets the header."""
    users = [value for name, value in scope["headers"] if name == b"x-user"]
    return bytes(users[-1]).decode()


def signed(token: bytes, **changes: object) -> Request:
    """Return a request with a token."""
    return Request(headers=[(b"authorization", token)]).but(**changes)


async def test_behind_authentication_a_stranger_learns_nothing_of_a_key(backend: Backend) -> None:
    """Not even whether it exists: it is not looked up."""
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    app = Authentication(
        backend.protect(LedgerApp(backend), principal=user_of, receipts=receipts, lock=lock)
    )
    await send(app, signed(b"Bearer one"))
    receipts.calls.clear()
    lock.calls.clear()

    answers = [await send(app, request) for request in (Request(), signed(b"Bearer guessed"))]

    assert [each.status for each in answers] == [401, 401]
    assert not any(each.replayed for each in answers)
    assert (receipts.calls, lock.calls) == ([], [])
    assert len(backend.ledger.rows()) == 1


async def test_behind_authentication_a_key_belongs_to_the_user_and_not_to_the_token(
    backend: Backend,
) -> None:
    app = Authentication(backend.protect(LedgerApp(backend), principal=user_of))

    answers = [await send(app, signed(token)) for token in TOKENS]

    assert [each.brief for each in answers] == [FRESH, FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 2


async def test_a_user_cannot_be_kept_from_a_key_that_another_one_has_in_flight(
    backend: Backend,
) -> None:
    gate = Gate()
    app = Authentication(backend.protect(LedgerApp(backend, after=gate), principal=user_of))
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(send, app, signed(b"Bearer one"))
        await gate.entered.wait()
        answers.append(await send(app, signed(b"Bearer two")))
        answers.append(await send(app, signed(b"Bearer two", chunks=(b"other",))))
        gate.opened.set()

    assert [each.brief for each in answers] == [FRESH, REUSED]
    assert len(backend.ledger.rows()) == 2


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_401_of_an_authentication_inside_does_not_stick_to_the_key(
    backend: Backend, effects: EffectsOption
) -> None:
    inner = LedgerApp(backend, effects)
    app = backend.protect(Authentication(inner), effects=effects)

    refused = [await send(app, Request()) for _ in range(2)]
    answers = [await send(app, signed(b"Bearer one")) for _ in range(2)]

    assert [each.brief for each in refused] == [(401, None, False)] * 2
    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1
