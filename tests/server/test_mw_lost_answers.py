"""An answer of the store that is lost: nothing runs twice, and no client is told a falsehood."""

from __future__ import annotations

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import unavailable, watched_lock, watched_receipts
from server.wire import send

pytestmark = pytest.mark.anyio

both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])
FRESH = (201, None, False)
REPLAY = (201, None, True)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)


@both_effects
async def test_a_claim_whose_answer_was_lost_once_is_recognised_as_ones_own(
    backend: Backend, effects: EffectsOption
) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.after["claim"] = unavailable(times=1)
    app = backend.protect(LedgerApp(backend, effects), effects=effects, receipts=receipts)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1


@both_effects
async def test_a_request_that_was_told_nothing_was_executed_can_be_repeated(
    backend: Backend, effects: EffectsOption
) -> None:
    """The claim stands, and both its answers were lost; its handler was never started."""
    receipts = watched_receipts(backend.receipts())
    receipts.after["claim"] = unavailable(times=2)
    app = backend.protect(
        LedgerApp(backend, effects), effects=effects, receipts=receipts, lease_s=0.1
    )

    refused = await send(app)
    await anyio.sleep(0.2)
    again = await send(app)

    assert refused.brief == UNAVAILABLE
    assert b"Nothing was executed" in refused.body
    assert again.brief == FRESH
    assert len(backend.ledger.rows()) == 1


@both_effects
async def test_a_finish_whose_answer_was_lost_is_replayed(
    backend: Backend, effects: EffectsOption
) -> None:
    receipts = watched_receipts(backend.receipts())
    name = "commit" if effects == "atomic" else "finish"
    receipts.after[name] = unavailable(times=1)
    app = backend.protect(LedgerApp(backend, effects), effects=effects, receipts=receipts)

    await send(app)

    assert (await send(app)).brief == REPLAY
    assert len(backend.ledger.rows()) == 1


async def test_a_commit_whose_answer_was_lost_is_not_called_not_executed(
    backend: Backend,
) -> None:
    """A client takes "store-unavailable" for a proof that nothing was executed, and may give the
    operation up, or start it anew under another key."""
    receipts = watched_receipts(backend.receipts())
    receipts.after["commit"] = unavailable(times=1)
    app = backend.protect(LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts)

    first = await send(app)

    assert backend.ledger.rows() == ["atomic"]
    assert first.problem is not ProblemKind.STORE_UNAVAILABLE
    assert b"Nothing was executed" not in first.body


async def test_a_commit_that_did_not_happen_frees_the_key(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["commit"] = unavailable(times=1)
    app = backend.protect(LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts)

    first, again = [await send(app) for _ in range(2)]

    assert first.status == 503
    assert again.brief == FRESH
    assert backend.ledger.rows() == ["atomic"]


async def test_a_receipt_that_cannot_be_stored_leaves_an_unknown_outcome_and_no_second_row(
    backend: Backend,
) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=2)
    app = backend.protect(LedgerApp(backend), receipts=receipts, lease_s=0.2)

    first = await send(app)
    await anyio.sleep(0.3)
    again = await send(app)

    assert first.brief == FRESH
    assert again.problem is ProblemKind.OUTCOME_UNKNOWN
    assert len(backend.ledger.rows()) == 1


async def test_a_begin_that_fails_frees_the_key(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["begin"] = unavailable(times=1)
    app = backend.protect(LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, again.brief) == (UNAVAILABLE, FRESH)
    assert backend.ledger.rows() == ["atomic"]


@pytest.mark.parametrize("operation", ["claim", "begin", "commit"])
async def test_a_defect_of_the_store_executes_nothing_and_holds_no_lock(
    backend: Backend, operation: str
) -> None:
    async def defect() -> None:
        receipts.before.clear()
        raise LookupError("a defect")

    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    receipts.before[operation] = defect
    app = backend.protect(
        LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts, lock=lock
    )

    first, again = [await send(app) for _ in range(2)]

    assert isinstance(first.raised, LookupError)
    assert again.brief == FRESH
    assert backend.ledger.rows() == ["atomic"]
