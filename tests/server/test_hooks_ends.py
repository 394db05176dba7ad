"""Events that come after their receipt has gone, and duplicates that wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import pytest
from starlette.types import ASGIApp

from replayfloor.server.webhooks.delivery import Delivery
from server.apps import Gate
from server.backends import Backend
from server.hooks import SHOP, Applying, delivery, receiving
from server.moments import HOUR_S, Moments, moments_of
from server.wire import send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)
RETENTION_S = 84 * HOUR_S
UNTIMED = replace(SHOP, event_time=None)


@pytest.fixture
async def moments(sqlite: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """Both sides, on a file."""
    async with moments_of(sqlite, monkeypatch) as made:
        yield made


async def test_an_event_that_grew_too_old_while_it_was_verified_is_not_applied(
    moments: Moments,
) -> None:
    """A verifier may ask its sender, and one delivery may hold many events."""
    handler = Applying(moments.backend)

    def slow(_delivery: Delivery) -> None:
        moments.at(RETENTION_S)

    app = receiving(handler, verify=slow, receipts=moments.receipts(), retention=RETENTION_S)
    answer = await send(app, delivery(created=moments.start_ms // 1000))

    assert answer.brief == FRESH
    assert handler.bodies == []


async def test_an_event_that_is_known_as_used_from_its_proof_alone_is_not_applied_again(
    moments: Moments,
) -> None:
    handler = Applying(moments.backend)

    def worker() -> ASGIApp:
        return receiving(
            handler,
            UNTIMED,
            receipts=moments.receipts(),
            retention=RETENTION_S,
            audit_retention=2 * RETENTION_S,
        )

    await send(worker(), delivery())
    moments.at(RETENTION_S + 1)
    moments.drop_receipts(to_proofs=True)
    other = worker()
    answers = [await send(other, delivery()) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert moments.backend.ledger.rows() == ["evt_1"]


async def test_a_handler_that_fails_past_the_horizon_is_told_so_again(moments: Moments) -> None:
    """The receipt that had expired made room for the claim; that it was there is still known."""
    handler = Applying(moments.backend, statuses=[200, 500])
    first = receiving(handler, UNTIMED, receipts=moments.receipts(), retention=RETENTION_S)
    await send(first, delivery())

    moments.at(RETENTION_S + 1)
    other = receiving(
        handler, UNTIMED, past_horizon="handler", receipts=moments.receipts(), retention=RETENTION_S
    )
    answers = [await send(other, delivery()) for _ in range(2)]

    assert [each.status for each in answers] == [500, 200]
    assert handler.past == [False, True, True]


async def test_an_event_from_the_future_is_new(moments: Moments) -> None:
    """Its sender's clock is ahead; a redelivery must not be lost by that."""
    handler = Applying(moments.backend)
    app = receiving(handler, receipts=moments.receipts(), retention=RETENTION_S)

    answers = [await send(app, delivery(created=moments.start_ms // 1000 + 3600)) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert handler.past == [False]


async def test_receipts_that_are_kept_for_good_have_no_horizon(moments: Moments) -> None:
    handler = Applying(moments.backend)
    app = receiving(handler, receipts=moments.receipts())

    answer = await send(app, delivery(created=moments.start_ms // 1000 - 1000 * RETENTION_S))

    assert answer.brief == FRESH
    assert handler.past == [False]


async def test_a_duplicate_may_wait_for_the_first_answer(sqlite: Backend) -> None:
    gate = Gate()
    slow = receiving(Applying(sqlite, before=gate), wait_for_s=5)
    other = receiving(Applying(sqlite), wait_for_s=5)
    answers = []

    async def second() -> None:
        answers.append(await send(other, delivery()))

    async with anyio.create_task_group() as group:
        group.start_soon(send, slow, delivery())
        await gate.entered.wait()
        group.start_soon(second)
        await anyio.sleep(0.1)
        gate.opened.set()

    assert [each.brief for each in answers] == [REPLAY]
    assert sqlite.ledger.rows() == ["evt_1"]
