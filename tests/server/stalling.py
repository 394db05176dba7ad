"""A worker that stands still beyond its lease, and goes on when everybody has given it up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from replayfloor.server import ServerEvent
from server.apps import Gate, LedgerApp
from server.doubles import watched_receipts
from server.wire import Answer, send

LEASE_S = 0.2


@asynccontextmanager
async def stalled(
    inner: LedgerApp, place: str, events: list[ServerEvent]
) -> AsyncIterator[tuple[Gate, list[Answer]]]:
    """Run a worker that stands still beyond its lease; open the gate to let it go on.

    All of it stands still, as under SIGSTOP: the renewals of its lease too.
    """
    gate, answers, going_on = Gate(), list[Answer](), anyio.Event()
    setattr(inner, place, gate)
    backend = inner.backend
    receipts = watched_receipts(backend.receipts())
    receipts.before["renew"] = going_on.wait
    app = backend.protect(
        inner, effects=inner.effects, receipts=receipts, lease_s=LEASE_S, on_event=events.append
    )

    async def run() -> None:
        answers.append(await send(app))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await gate.entered.wait()
            await anyio.sleep(LEASE_S + 0.1)
            yield gate, answers
            gate.opened.set()
    finally:
        going_on.set()
