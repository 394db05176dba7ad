"""Cancellation at every step: nothing runs twice, and what is known not to have run is free."""

from __future__ import annotations

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend, EffectsOption
from server.cancelling import CANCELLERS, Canceller
from server.doubles import Watched, watched_lock, watched_receipts
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

every_way = pytest.mark.parametrize("cancel", CANCELLERS)
both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])
both_sides = pytest.mark.parametrize("side", ["before", "after"])
FRESH = (201, None, False)
REPLAY = (201, None, True)


class Scene:
    """A worker whose stores and handler can be held up, to be cancelled there."""

    def __init__(self, asgi: Backend, effects: EffectsOption, lease_s: float = 30.0) -> None:
        self.backend, self.gate = asgi, Gate()
        self.inner = LedgerApp(asgi, effects)
        self.receipts = watched_receipts(asgi.receipts())
        self.lock = watched_lock(asgi.lock())
        self.app = asgi.protect(
            self.inner, effects=effects, receipts=self.receipts, lock=self.lock, lease_s=lease_s
        )

    def hold(self, watched: Watched, side: str, name: str) -> None:
        """Put the gate before or after an operation of a store."""
        (watched.before if side == "before" else watched.after)[name] = self.gate

    async def cancel(self, cancel: Canceller, request: Request | None = None) -> None:
        """Send a request and cancel it at the gate."""
        exchange = await cancel(self.app, self.gate, request or Request())
        assert exchange.sent == []

    async def retry(self) -> Answer:
        """Send the request again, and see that others are served as well."""
        other = await send(self.app, Request(key=b'"another"'))
        answer = await send(self.app)
        assert other.brief == (self.inner.status, None, False)
        return answer

    @property
    def rows(self) -> int:
        """Rows of the request that was cancelled: without the one of the other key."""
        return len(self.backend.ledger.rows()) - 1


@every_way
@pytest.mark.parametrize("place", ["before", "after"])
async def test_an_atomic_handler_that_is_cancelled_is_rolled_back_and_free(
    asgi: Backend, cancel: Canceller, place: str
) -> None:
    scene = Scene(asgi, "atomic")
    setattr(scene.inner, place, scene.gate)

    await scene.cancel(cancel)

    assert asgi.ledger.rows() == []
    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


@every_way
async def test_an_external_handler_that_is_cancelled_is_unknown_and_never_runs_again(
    asgi: Backend, cancel: Canceller
) -> None:
    scene = Scene(asgi, "external", lease_s=0.3)
    scene.inner.after = scene.gate

    await scene.cancel(cancel)
    early = await scene.retry()
    await anyio.sleep(0.4)
    late = await send(scene.app)

    assert early.problem in (ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN)
    assert late.brief == (409, ProblemKind.OUTCOME_UNKNOWN, False)
    assert scene.rows == 1


@every_way
@both_effects
@both_sides
async def test_a_request_cancelled_while_it_claims_leaves_the_key_free(
    asgi: Backend, cancel: Canceller, effects: EffectsOption, side: str
) -> None:
    scene = Scene(asgi, effects)
    scene.hold(scene.receipts, side, "claim")

    await scene.cancel(cancel)

    assert asgi.ledger.rows() == []
    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


@every_way
@both_sides
async def test_a_request_cancelled_while_it_takes_the_lock_leaves_the_key_free(
    asgi: Backend, cancel: Canceller, side: str
) -> None:
    scene = Scene(asgi, "external")
    scene.hold(scene.lock, side, "acquire")

    await scene.cancel(cancel)

    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


@every_way
@both_sides
async def test_a_request_cancelled_while_it_begins_leaves_the_key_free(
    asgi: Backend, cancel: Canceller, side: str
) -> None:
    scene = Scene(asgi, "atomic")
    scene.hold(scene.receipts, side, "begin")

    await scene.cancel(cancel)

    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


@every_way
@both_sides
async def test_an_external_effect_is_recorded_although_its_settlement_is_cancelled(
    asgi: Backend, cancel: Canceller, side: str
) -> None:
    scene = Scene(asgi, "external")
    scene.hold(scene.receipts, side, "finish")

    await scene.cancel(cancel)

    assert (await scene.retry()).brief == REPLAY
    assert scene.rows == 1


@every_way
async def test_an_atomic_commit_that_is_cancelled_before_it_began_is_rolled_back_and_free(
    asgi: Backend, cancel: Canceller
) -> None:
    scene = Scene(asgi, "atomic")
    scene.hold(scene.receipts, "before", "commit")

    await scene.cancel(cancel)

    assert asgi.ledger.rows() == []
    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


@every_way
async def test_an_atomic_commit_that_is_cancelled_after_it_was_done_is_replayed(
    asgi: Backend, cancel: Canceller
) -> None:
    scene = Scene(asgi, "atomic")
    scene.hold(scene.receipts, "after", "commit")

    await scene.cancel(cancel)

    assert (await scene.retry()).brief == REPLAY
    assert scene.rows == 1


@every_way
@both_effects
@both_sides
async def test_a_key_that_an_answer_frees_is_free_although_the_settlement_is_cancelled(
    asgi: Backend, cancel: Canceller, effects: EffectsOption, side: str
) -> None:
    """The handler said 429: nothing was executed, so nothing may be left "unknown"."""
    scene = Scene(asgi, effects)
    scene.inner.status = 429
    scene.hold(scene.receipts, side, "abandon")

    await scene.cancel(cancel)
    scene.inner.status = 201

    assert (await scene.retry()).brief == FRESH


@every_way
@both_sides
async def test_an_atomic_rollback_that_is_cancelled_leaves_the_key_free(
    asgi: Backend, cancel: Canceller, side: str
) -> None:
    scene = Scene(asgi, "atomic")
    scene.inner.status = 500
    scene.hold(scene.receipts, side, "rollback")

    await scene.cancel(cancel)
    scene.inner.status = 201

    assert asgi.ledger.rows() == []
    assert (await scene.retry()).brief == FRESH
    assert scene.rows == 1


async def test_a_duplicate_cancelled_while_it_waits_disturbs_nobody(asgi: Backend) -> None:
    scene = Scene(asgi, "external")
    scene.inner.after = scene.gate
    waiter = asgi.protect(scene.inner, wait_for_s=10.0)
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(send, scene.app)
        await scene.gate.entered.wait()
        with anyio.move_on_after(0.15):
            answers.append(await send(waiter))
        scene.gate.opened.set()

    assert answers == []
    assert (await scene.retry()).brief == REPLAY
    assert scene.rows == 1
