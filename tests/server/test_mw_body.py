"""Request bodies: read whole before anything is executed, up to a limit."""

from __future__ import annotations

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import watched_lock, watched_receipts
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

TOO_LARGE = (413, ProblemKind.BODY_TOO_LARGE, False)


@pytest.mark.parametrize("chunks", [(b"x" * 101,), (b"x" * 60, b"x" * 41), (b"x",) * 101])
async def test_a_body_above_the_limit_is_refused_and_nothing_is_executed(
    backend: Backend, chunks: tuple[bytes, ...]
) -> None:
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    inner = LedgerApp(backend)
    app = backend.protect(inner, body_bytes_max=100, receipts=receipts, lock=lock)

    answer = await send(app, Request(chunks=chunks))

    assert answer.brief == TOO_LARGE
    assert (receipts.calls, lock.calls, inner.bodies_read) == ([], [], [])
    assert backend.ledger.rows() == []


async def test_a_body_of_exactly_the_limit_is_executed(backend: Backend) -> None:
    inner = LedgerApp(backend)
    app = backend.protect(inner, body_bytes_max=100)

    assert (await send(app, Request(chunks=(b"x" * 60, b"x" * 40)))).status == 201
    assert inner.bodies_read == [b"x" * 100]


async def test_an_endless_body_is_refused_without_being_read_to_its_end(sqlite: Backend) -> None:
    app = sqlite.protect(LedgerApp(sqlite), body_bytes_max=100)
    exchange = Exchange(app, Request(chunks=(b"x" * 50,) * 1000))

    answer = await exchange.run()

    assert answer.brief == TOO_LARGE
    assert (await exchange.receive())["type"] == "http.request"  # most of it is still unread


async def test_a_body_without_key_is_not_limited(sqlite: Backend) -> None:
    app = sqlite.protect(LedgerApp(sqlite), body_bytes_max=100)

    assert (await send(app, Request(key=None, chunks=(b"x" * 1000,)))).status == 201


@pytest.mark.parametrize("effects", ["atomic", "external"])
@pytest.mark.parametrize("chunks", [(), (b'{"amount"',)])
async def test_a_client_that_leaves_before_its_body_is_complete_executes_nothing(
    backend: Backend, effects: EffectsOption, chunks: tuple[bytes, ...]
) -> None:
    app = backend.protect(LedgerApp(backend, effects), effects=effects)
    exchange = Exchange(app, Request(chunks=chunks, disconnects=True))

    with anyio.fail_after(5):
        await exchange.run()

    # Over ASGI there is nobody to answer; a WSGI application has to return something.
    assert exchange.answer().status == (400 if backend.is_wsgi else 0)
    assert backend.ledger.rows() == []
    assert (await send(app)).brief == (201, None, False)


async def test_a_client_that_leaves_after_its_body_is_executed_and_can_come_back(
    backend: Backend,
) -> None:
    inner = LedgerApp(backend)
    app = backend.protect(inner)
    exchange = Exchange(app, Request())
    exchange.answered.set()  # from now on, receive() says that the client has gone

    await exchange.run()

    assert (await send(app)).brief == (201, None, True)
    assert len(backend.ledger.rows()) == 1
