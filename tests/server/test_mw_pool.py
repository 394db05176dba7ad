"""Postgres with every connection taken: a request is refused in time, and hangs nobody."""

from __future__ import annotations

import time
from functools import partial

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.wire import Answer, Request, send, send_all

pytestmark = pytest.mark.anyio

OPERATION_S = 0.5
FRESH, REPLAY = (201, None, False), (201, None, True)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)


async def test_while_handlers_hold_every_connection_others_are_refused_in_time(
    postgres: Backend,
) -> None:
    receipts = postgres.postgres_receipts(operation_s=OPERATION_S, handler_connections=1)
    gate = Gate()
    inner = LedgerApp(postgres, "atomic", after=gate)
    app = postgres.protect(inner, effects="atomic", receipts=receipts)
    first, refused, took_s = list[Answer](), list[Answer](), list[float]()
    others = [Request(key=b'"other-%d"' % n) for n in range(4)]

    async def hold() -> None:
        first.append(await send(app))

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await gate.entered.wait()
        begun = time.monotonic()
        with anyio.fail_after(20 * OPERATION_S):
            refused += await send_all([partial(send, app, request) for request in others])
        took_s.append(time.monotonic() - begun)
        gate.opened.set()
    again = [(await send(app, request)).brief for request in (Request(), *others)]

    assert [each.brief for each in refused] == [UNAVAILABLE] * len(others)
    assert took_s[0] < 5 * OPERATION_S
    assert [each.brief for each in first] == [FRESH]
    # What was refused was not executed, and its key is free.
    assert again == [REPLAY, *[FRESH] * len(others)]
    assert len(postgres.ledger.rows()) == 1 + len(others)


async def test_the_protocol_goes_on_while_handlers_hold_every_connection(
    postgres: Backend,
) -> None:
    """Two pools: the finishes that would free the handlers' connections must not wait for one."""
    receipts = postgres.postgres_receipts(operation_s=OPERATION_S, handler_connections=1)
    gate = Gate()
    atomic = postgres.protect(
        LedgerApp(postgres, "atomic", after=gate), effects="atomic", receipts=receipts
    )
    external = postgres.protect(LedgerApp(postgres), receipts=receipts)
    answers: list[object] = []

    async with anyio.create_task_group() as group:
        group.start_soon(send, atomic)
        await gate.entered.wait()
        answers += [(await send(external, Request(key=b'"other"'))).brief for _ in range(2)]
        gate.opened.set()

    assert answers == [FRESH, REPLAY]
    assert (await send(atomic)).brief == REPLAY
