"""A receipt that has gone, and one that outlives a long operation: when retention begins and ends.

Receipts go here as they do when their partition is dropped: the row is no more, and nothing says
that it was there. By a clock that is moved on: test_mw_horizon.py, test_mw_after_expiry.py.
"""

from __future__ import annotations

import time

import anyio
import pytest
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.test_mw_age import MARGIN_S, first_sent, minted
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
EXPIRED = (400, ProblemKind.KEY_EXPIRED, False)
RETENTION_S = 3600


def receipts_expire(backend: Backend) -> None:
    """Remove every receipt."""
    backend.ledger.run(f"delete from {_table(backend)}")


def _table(backend: Backend) -> str:
    return "replayfloor.receipts" if backend.is_postgres else "replayfloor_receipts"


def worker(
    backend: Backend, inner: LedgerApp | None = None, retention: float = RETENTION_S
) -> ASGIApp:
    """Return a worker whose lock knows of nothing that was before."""
    return backend.protect(inner or LedgerApp(backend), retention=retention, lock="local")


async def test_after_its_receipt_has_expired_a_key_that_tells_its_age_is_refused(
    backend: Backend,
) -> None:
    """It may be older than any receipt, so nobody can say whether it ran: it did."""
    key = Request(key=minted(RETENTION_S - MARGIN_S - 1))
    first = await send(worker(backend), key)
    receipts_expire(backend)
    await anyio.sleep(1.1)

    late = await send(worker(backend), key)

    assert (first.brief, late.brief) == (FRESH, EXPIRED)
    assert len(backend.ledger.rows()) == 1


async def test_after_its_receipt_has_expired_a_sender_that_tells_when_it_began_is_refused(
    backend: Backend,
) -> None:
    first = await send(worker(backend), first_sent(RETENTION_S - MARGIN_S - 60))
    receipts_expire(backend)

    late = await send(worker(backend), first_sent(RETENTION_S + 2))

    assert (first.brief, late.brief) == (FRESH, EXPIRED)
    assert len(backend.ledger.rows()) == 1


async def test_after_its_receipt_has_expired_a_key_of_unknown_age_is_a_new_operation(
    backend: Backend,
) -> None:
    """What the draft leaves open, and what the advertised lifetime is for."""
    first = await send(worker(backend))
    receipts_expire(backend)

    late, again = [await send(worker(backend)) for _ in range(2)]

    assert [each.brief for each in (first, late, again)] == [FRESH, FRESH, REPLAY]
    assert late.all(b"idempotency-key-lifetime") == [str(RETENTION_S).encode()]
    assert len(backend.ledger.rows()) == 2


async def test_receipts_that_expire_take_no_operation_with_them_that_is_under_way(
    backend: Backend,
) -> None:
    gate = Gate()
    answers: list[Answer] = []

    async def first() -> None:
        answers.append(await send(worker(backend, LedgerApp(backend, before=gate))))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await gate.entered.wait()
        receipts_expire(backend)
        answers.append(await send(worker(backend)))
        gate.opened.set()
    answers.append(await send(worker(backend)))

    assert [each.brief for each in answers] == [IN_FLIGHT, FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1


async def test_retention_counts_from_the_end_of_the_operation(backend: Backend) -> None:
    """Longer than the retention itself, and yet its receipt is there when it has ended."""
    ended: list[float] = []

    async def work() -> None:
        await anyio.sleep(1.2)
        ended.append(time.time())

    inner = LedgerApp(backend, before=work)

    first = await send(worker(backend, inner, retention=1))
    again = await send(worker(backend, retention=1))

    assert (first.brief, again.brief) == (FRESH, REPLAY)
    # The clocks of the database and of this process are those of one machine.
    assert ended[0] - 0.05 <= _finished_at(backend)
    assert len(backend.ledger.rows()) == 1


def _finished_at(backend: Backend) -> float:
    column = (
        "extract(epoch from finished_at)::float8" if backend.is_postgres else "finished_ms / 1000.0"
    )
    ((moment,),) = backend.ledger.run(f"select {column} from {_table(backend)}")
    assert isinstance(moment, float)
    return moment
