"""on_outage: what happens to a keyed request while the receipts cannot be reached."""

from __future__ import annotations

import logging

import pytest

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, ServerEvent
from server.apps import Hook, LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)
MARK = b"idempotency-unprotected"


def away(*, performed: bool) -> Hook:
    """Return a hook that reports the store as gone; `performed`: only its answer may be lost."""

    async def hook() -> None:
        raise StoreUnavailable("away", performed=None if performed else False)

    return hook


@pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])
async def test_a_request_is_refused_unless_the_user_chose_otherwise(
    backend: Backend, effects: EffectsOption
) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = away(performed=False)
    app = backend.protect(LedgerApp(backend, effects), effects=effects, receipts=receipts)

    answer = await send(app)

    assert answer.brief == UNAVAILABLE
    assert answer.all(MARK) == []
    assert backend.ledger.rows() == []


@pytest.mark.parametrize("effects", ["external", "repeatable"])
@pytest.mark.parametrize("performed", [True, False])
async def test_a_request_that_is_executed_unprotected_says_so_in_its_answer_and_in_the_log(
    backend: Backend,
    effects: EffectsOption,
    performed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[ServerEvent] = []
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = away(performed=performed)
    inner = LedgerApp(backend, effects)
    app = backend.protect(
        inner, effects=effects, receipts=receipts, on_outage="execute", on_event=events.append
    )

    with caplog.at_level(logging.WARNING):
        answer = await send(app, Request(chunks=(b"a", b"b")))

    assert answer.brief == FRESH
    assert answer.headers == (*inner.headers, (MARK, b"true"))
    assert inner.bodies_read == [b"ab"]
    assert EventKind.EXECUTED_OPENLY in [event.kind for event in events]
    assert "executed-openly" in caplog.text
    assert len(backend.ledger.rows()) == 1


async def test_an_atomic_request_is_refused_in_either_case(backend: Backend) -> None:
    """There is no connection that it could write through."""
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = away(performed=False)
    app = backend.protect(
        LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts, on_outage="execute"
    )

    answer = await send(app)

    assert (answer.brief, backend.ledger.rows()) == (UNAVAILABLE, [])


async def test_while_the_store_is_there_nothing_is_executed_unprotected(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), on_outage="execute")

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, again.brief) == (FRESH, REPLAY)
    assert first.all(MARK) == again.all(MARK) == []
    assert len(backend.ledger.rows()) == 1


async def test_after_the_outage_requests_are_protected_again(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = away(performed=False)
    app = backend.protect(LedgerApp(backend), receipts=receipts, on_outage="execute")

    during = await send(app)
    del receipts.before["claim"]
    answers = [await send(app) for _ in range(2)]

    assert during.all(MARK) == [b"true"]
    # The user chose it: the retry was executed a second time.
    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert [each.all(MARK) for each in answers] == [[], []]
    assert len(backend.ledger.rows()) == 2


async def test_what_the_lock_knows_is_answered_during_the_outage_too(postgres: Backend) -> None:
    receipts = watched_receipts(postgres.receipts())
    app = postgres.protect(LedgerApp(postgres), receipts=receipts, on_outage="execute")
    await send(app)
    receipts.before["claim"] = away(performed=False)

    assert (await send(app)).brief == REPLAY
    assert len(postgres.ledger.rows()) == 1
