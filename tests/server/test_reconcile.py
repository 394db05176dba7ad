"""Settling orphans on real stores: what the reconciler says is what every retry gets."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from anyio import to_thread
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Scope

from replayfloor.core.derived import derived_key
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.reconcile import (
    Applied,
    NotApplied,
    Orphan,
    Reconciled,
    Settled,
    StillUnknown,
    Verdict,
)
from server.apps import Gate, LedgerApp
from server.backends import Backend, claim_of
from server.doubles import unavailable, watched_receipts
from server.reconciling import (
    FRESH,
    IN_FLIGHT,
    LEASE_S,
    REPLAY,
    UNKNOWN,
    Asked,
    die_before_the_effect,
    lose_receipt,
    one_pass,
    records_of,
    settle_one,
    worker,
)
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

WAIT_S = 10.0

ANSWER = (
    201,
    [("Content-Type", "application/json"), ("Link", "</a>"), ("Link", "</b>"), ("X-Paid", "yes")],
    b'{"id": "found by the reconciler", "bytes": "\xff"}',
)


async def test_an_applied_orphan_is_replayed_exactly_as_the_reconciler_said(
    backend: Backend,
) -> None:
    await lose_receipt(backend)
    app = worker(backend)
    before = await send(app)

    done = await one_pass(backend, Asked(Applied(ANSWER)))
    after = [await send(app) for _ in range(2)]

    assert before.brief == UNKNOWN
    assert done == Reconciled(applied=1)
    for answer in after:
        assert answer.brief == REPLAY
        assert answer.body == ANSWER[2]
        assert answer.all(b"link") == [b"</a>", b"</b>"]
        assert answer.all(b"x-paid") == [b"yes"]
        assert answer.all(b"content-type") == [b"application/json"]
    assert backend.ledger.rows() == ["external"]


async def test_an_orphan_that_was_not_applied_is_executed_once_by_a_retry(
    backend: Backend,
) -> None:
    await die_before_the_effect(backend)
    app = worker(backend)
    before = await send(app)
    assert backend.ledger.rows() == []

    done = await one_pass(backend, Asked(NotApplied()))
    after = [await send(app) for _ in range(3)]

    assert before.brief == UNKNOWN
    assert done == Reconciled(not_applied=1)
    assert [each.brief for each in after] == [FRESH, REPLAY, REPLAY]
    assert backend.ledger.rows() == ["external"]


@pytest.mark.parametrize(
    "verdict",
    [StillUnknown(), ValueError("the provider answered nonsense"), None],
    ids=["unknown", "raised", "no verdict"],
)
async def test_an_orphan_nobody_knows_about_stays_one_at_once(
    backend: Backend, verdict: Verdict | Exception | None
) -> None:
    await lose_receipt(backend)
    app = worker(backend)

    done = await one_pass(backend, Asked(verdict))  # type: ignore[arg-type]
    again = await send(app)
    second = await one_pass(backend, Asked(Applied(ANSWER)))

    assert done == Reconciled(unknown=1)
    assert again.brief == UNKNOWN
    assert second == Reconciled(applied=1)
    assert (await send(app)).brief == REPLAY
    assert backend.ledger.rows() == ["external"]


async def test_a_reconciler_that_raises_is_logged_and_the_others_are_settled(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    for key in (b'"a"', b'"b"', b'"c"'):
        await lose_receipt(backend, Request(key=key))
    asked: list[str] = []

    def second_fails(orphan: Orphan) -> Verdict:
        asked.append(orphan.id)
        if len(asked) == 2:
            raise ConnectionError("provider down")
        return Applied(ANSWER)

    with caplog.at_level(logging.WARNING):
        done = await one_pass(backend, second_fails)

    assert done == Reconciled(applied=2, unknown=1)
    assert "provider down" in caplog.text
    assert asked[1] in caplog.text


async def test_while_the_reconciler_is_asked_the_key_is_in_flight_and_nobody_else_is_asked(
    backend: Backend,
) -> None:
    await lose_receipt(backend)
    (record,) = records_of(backend).orphans(10)
    app, other = worker(backend), Asked(Applied((200, {}, b"the other's")))
    entered, opened = threading.Event(), threading.Event()
    seen: list[object] = []
    done: Reconciled | None = None

    def slow(_orphan: Orphan) -> Verdict:
        entered.set()
        assert opened.wait(WAIT_S)
        return Applied(ANSWER)

    async def elsewhere() -> None:
        await to_thread.run_sync(entered.wait, WAIT_S)
        seen.append((await send(app)).brief)
        seen.append(await settle_one(backend, record, other))
        opened.set()

    async with anyio.create_task_group() as group:
        group.start_soon(elsewhere)
        done = await one_pass(backend, slow)

    assert done == Reconciled(applied=1)
    assert seen == [IN_FLIGHT, Settled.SKIPPED]
    assert other.orphans == []
    assert (await send(app)).body == ANSWER[2]


async def test_an_owner_that_wakes_up_late_is_refused_and_the_reconciled_answer_stands(
    backend: Backend,
) -> None:
    gate, events, answers = Gate(), list[ServerEvent](), list[Answer]()
    done: Reconciled | None = None
    receipts = watched_receipts(backend.receipts())
    receipts.before["renew"] = anyio.sleep_forever
    stalled = backend.protect(
        LedgerApp(backend, after=gate),
        receipts=receipts,
        lease_s=LEASE_S,
        on_event=events.append,
    )

    async def run() -> None:
        answers.append(await send(stalled))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.entered.wait()
        await anyio.sleep(LEASE_S + 0.05)
        done = await one_pass(backend, Asked(Applied(ANSWER)))
        gate.opened.set()

    assert done == Reconciled(applied=1)
    assert [each.brief for each in answers] == [FRESH]
    assert EventKind.LEASE_LOST in [each.kind for each in events]
    assert (await send(worker(backend))).body == ANSWER[2]
    assert backend.ledger.rows() == ["external"]


async def test_the_reconciler_is_shown_when_it_began_and_the_handlers_derived_keys(
    backend: Backend,
) -> None:
    derived: list[str] = []

    class Telling(LedgerApp):
        async def write(self, scope: Scope) -> None:
            derived.append(claim_of(scope).derived_key("charge"))

    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=2)
    began = datetime.now(UTC)
    app = backend.protect(Telling(backend), receipts=receipts, lease_s=LEASE_S)
    await send(app)
    await anyio.sleep(LEASE_S + 0.05)
    first, second = Asked(StillUnknown()), Asked(StillUnknown())

    await one_pass(backend, first)
    await one_pass(backend, second)

    (orphan,), (again,) = first.orphans, second.orphans
    assert orphan.derived_key("charge") == derived[0] == derived_key(orphan.receipt_id, "charge")
    assert abs(orphan.claimed_at - began) < timedelta(seconds=5)
    assert orphan.claimed_at < orphan.orphaned_since
    # Asked again, it must look for the charge from the beginning and not from the last look.
    assert again.claimed_at == orphan.claimed_at
    assert again.orphaned_since > orphan.orphaned_since


async def test_an_orphan_that_is_not_old_enough_is_left_to_its_owner(backend: Backend) -> None:
    await lose_receipt(backend)
    asked = Asked(Applied(ANSWER))

    done = await one_pass(backend, asked, older_than_s=30.0)

    assert done == Reconciled()
    assert asked.orphans == []


async def test_a_pass_takes_no_more_than_its_limit_and_the_next_begins_with_the_others(
    backend: Backend,
) -> None:
    for key in (b'"a"', b'"b"', b'"c"'):
        await lose_receipt(backend, Request(key=key))
    asked = Asked(StillUnknown())

    for _ in range(3):
        assert await one_pass(backend, asked, limit=1) == Reconciled(unknown=1)

    assert len({orphan.id for orphan in asked.orphans}) == 3


async def test_an_orphan_is_not_asked_about_again_before_the_reconciler_wants_it(
    backend: Backend,
) -> None:
    await lose_receipt(backend)
    later, asked = Asked(StillUnknown(ask_again_after_s=1.0)), Asked(Applied(ANSWER))

    await one_pass(backend, later)
    too_early = await one_pass(backend, asked)
    answer = await send(worker(backend))
    await anyio.sleep(1.0)
    in_time = await one_pass(backend, asked)

    assert (too_early, in_time) == (Reconciled(), Reconciled(applied=1))
    assert answer.brief == IN_FLIGHT


async def test_what_became_of_each_orphan_is_told_without_its_key(backend: Backend) -> None:
    secret = Request(key=b'"secret-key"', chunks=(b"secret-body",))
    await lose_receipt(backend, secret)
    events: list[ServerEvent] = []
    verdicts: list[Verdict] = [StillUnknown("no charge found yet"), Applied(ANSWER)]

    for verdict in verdicts:
        await one_pass(backend, Asked(verdict), on_event=events.append)

    told = [(each.kind, each.detail) for each in events]
    assert told == [
        (EventKind.LEFT_ORPHANED, "no charge found yet"),
        (EventKind.RECONCILED, "applied 201"),
    ]
    assert all(len(each.receipt_id) == 32 for each in events)
    assert "secret" not in str(events)


async def test_an_answer_of_a_framework_is_taken(backend: Backend) -> None:
    await lose_receipt(backend)

    await one_pass(backend, Asked(Applied(JSONResponse({"id": 7}, 202))))
    answer = await send(worker(backend))

    assert answer.brief == (202, None, True)
    assert answer.body == b'{"id":7}'


async def test_what_is_wrong_with_an_answer_is_told(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_receipt(backend)

    done = await one_pass(backend, Asked(Applied(StreamingResponse(iter(())))))

    assert done == Reconciled(unknown=1)
    assert "streams its body" in caplog.text
    assert (await send(worker(backend))).brief == UNKNOWN


async def test_of_a_sensitive_answer_only_status_and_location_are_stored(backend: Backend) -> None:
    await lose_receipt(backend)
    secret = (201, {"location": "/tokens/1", "x-token": "s3cret"}, b"s3cret")

    await one_pass(backend, Asked(Applied(secret, sensitive=True)))
    answer = await send(worker(backend))

    assert answer.status == 409
    assert b"s3cret" not in answer.body
    assert b"/tokens/1" in answer.body


async def test_a_reconciler_that_does_not_return_is_given_up(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    await lose_receipt(backend)
    ended = threading.Event()

    def hang(_orphan: Orphan) -> Verdict:
        ended.wait(WAIT_S)
        return NotApplied()

    done = await one_pass(backend, hang, answer_s=0.1)
    again = await send(worker(backend))
    ended.set()

    assert done == Reconciled(unknown=1)
    assert "did not end in time" in caplog.text
    assert again.brief == UNKNOWN
    assert await one_pass(backend, Asked(Applied(ANSWER))) == Reconciled(applied=1)


async def test_a_store_that_is_gone_ends_the_pass_and_leaves_an_orphan(backend: Backend) -> None:
    await lose_receipt(backend)
    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=1)
    (record,) = records_of(backend).orphans(10)

    with pytest.raises(StoreUnavailable):
        await one_pass(backend, Asked(Applied(ANSWER)), receipts=receipts)

    (held,) = records_of(backend).claims(10)
    assert (held.id, held.orphaned) == (record.id, False)
    assert (await send(worker(backend))).brief == IN_FLIGHT


async def test_an_orphan_that_was_settled_since_it_was_listed_is_skipped(backend: Backend) -> None:
    await lose_receipt(backend)
    (record,) = records_of(backend).orphans(10)
    await one_pass(backend, Asked(Applied(ANSWER)))
    late = Asked(NotApplied())

    settled = await settle_one(backend, record, late)

    assert settled is Settled.SKIPPED
    assert late.orphans == []
    assert (await send(worker(backend))).body == ANSWER[2]


async def test_an_orphan_that_was_freed_since_it_was_listed_stays_free(backend: Backend) -> None:
    await die_before_the_effect(backend)
    (record,) = records_of(backend).orphans(10)
    await one_pass(backend, Asked(NotApplied()))
    late = Asked(Applied(ANSWER))

    settled = await settle_one(backend, record, late)

    assert settled is Settled.SKIPPED
    assert late.orphans == []
    assert records_of(backend).claims(10) == []
    assert (await send(worker(backend))).brief == FRESH


async def test_an_orphan_is_not_freed_because_the_answer_to_its_takeover_was_lost(
    backend: Backend,
) -> None:
    await lose_receipt(backend)
    (record,) = records_of(backend).orphans(10)
    receipts = watched_receipts(backend.receipts())
    receipts.after["claim"] = unavailable(times=1)

    with pytest.raises(StoreUnavailable):
        await settle_one(backend, record, Asked(NotApplied()), receipts)  # type: ignore[arg-type]

    assert len(records_of(backend).claims(10)) == 1
    assert backend.ledger.rows() == ["external"]
