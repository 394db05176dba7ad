"""What `on_event` is told of requests that are cancelled."""

from __future__ import annotations

import anyio
import pytest

from replayfloor.server import EventKind, ServerEvent
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.doubles import unavailable, watched_receipts
from server.wire import send

pytestmark = pytest.mark.anyio

K = EventKind


async def test_an_orphaned_execution_is_told_when_it_is_left(asgi: Backend) -> None:
    events: list[ServerEvent] = []
    gate = Gate()
    app = asgi.protect(LedgerApp(asgi, after=gate), on_event=events.append)

    async with anyio.create_task_group() as group:
        group.start_soon(send, app)
        await gate.entered.wait()
        group.cancel_scope.cancel()

    assert [each.kind for each in events] == [K.CLAIMED, K.LEFT_ORPHANED]


async def test_a_finish_whose_cancellation_lost_the_receipt_is_told(asgi: Backend) -> None:
    events: list[ServerEvent] = []
    gate, receipts = Gate(), watched_receipts(asgi.receipts())

    async def hold_then_fail() -> None:
        held = gate.entered.is_set()
        await gate()
        if held:
            await unavailable(times=1)()

    receipts.before["finish"] = hold_then_fail
    app = asgi.protect(LedgerApp(asgi), receipts=receipts, on_event=events.append)

    async with anyio.create_task_group() as group:
        group.start_soon(send, app)
        await gate.entered.wait()
        group.cancel_scope.cancel()

    assert K.RECEIPT_LOST in [each.kind for each in events]


async def test_a_finish_that_was_cancelled_and_repeated_is_told_as_finished(
    asgi: Backend,
) -> None:
    events: list[ServerEvent] = []
    gate, receipts = Gate(), watched_receipts(asgi.receipts())
    receipts.before["finish"] = gate
    app = asgi.protect(LedgerApp(asgi), receipts=receipts, on_event=events.append)

    async with anyio.create_task_group() as group:
        group.start_soon(send, app)
        await gate.entered.wait()
        group.cancel_scope.cancel()

    assert K.FINISHED in [each.kind for each in events]
