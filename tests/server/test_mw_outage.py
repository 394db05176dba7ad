"""Postgres or Redis go away while requests are served: nothing is executed twice or unprotected."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
import pytest
from anyio import to_thread
from redis.asyncio import Redis as Client
from starlette.types import ASGIApp

from replayfloor.core.fingerprint import receipt_id
from replayfloor.core.problem import ProblemKind
from server.apps import Gate, Hook, LedgerApp
from server.backends import AnyReceipts, Backend, EffectsOption
from server.wire import Answer, Request, send, send_all
from support.services import Postgres, Redis

pytestmark = pytest.mark.anyio

UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
FRESH = (201, None, False)
REPLAY = (201, None, True)
OPERATION_S = 1.0


def _receipts(backend: Backend) -> AnyReceipts:
    return backend.postgres_receipts(operation_s=OPERATION_S)


async def _until_served(app: ASGIApp, request: Request) -> Answer:
    for _ in range(50):
        answer = await send(app, request)
        if answer.status != 503:
            return answer
        await anyio.sleep(0.1)
    raise AssertionError("not served again")


@pytest.mark.parametrize(("effects", "end"), [("external", "stop"), ("atomic", "crash")])
async def test_without_postgres_nothing_is_executed_and_afterwards_it_works_again(
    postgres: Backend, postgres_server: Postgres, effects: EffectsOption, end: str
) -> None:
    receipts = _receipts(postgres)
    inner = LedgerApp(postgres, effects)
    app = postgres.protect(inner, effects=effects, receipts=receipts)
    before = await send(app, Request(key=b'"before"'))

    await to_thread.run_sync(getattr(postgres_server, end))
    down = await send_all([partial(send, app) for _ in range(3)])
    await to_thread.run_sync(postgres_server.start)
    after = await _until_served(app, Request())
    again = await _until_served(app, Request(key=b'"before"'))

    assert before.brief == FRESH
    assert {each.brief for each in down} <= {UNAVAILABLE, IN_FLIGHT}
    assert UNAVAILABLE in [each.brief for each in down]
    assert all(int(each.first(b"retry-after") or b"0") >= 1 for each in down)
    assert (after.brief, again.brief) == (FRESH, REPLAY)
    assert len(postgres.ledger.rows()) == len(inner.bodies_read) == 2


async def test_a_frozen_postgres_is_given_up_in_time_and_recovered_from(
    postgres: Backend, postgres_server: Postgres
) -> None:
    """It takes connections and never answers: a request must not hang on any of them."""
    receipts = _receipts(postgres)
    app = postgres.protect(LedgerApp(postgres), receipts=receipts)
    warm = [Request(key=b'"w-%d"' % n) for n in range(6)]
    await send_all([partial(send, app, request) for request in warm])

    await to_thread.run_sync(postgres_server.freeze)
    request = asyncio.ensure_future(send(app))
    in_time, _late = await asyncio.wait({request}, timeout=6 * OPERATION_S)
    await to_thread.run_sync(postgres_server.thaw)
    down = await request
    answer = await _until_served(app, Request(key=b'"afterwards"'))

    assert in_time
    assert (down.brief, answer.brief) == (UNAVAILABLE, FRESH)


async def test_an_atomic_handler_that_loses_its_connection_is_rolled_back_and_runs_again(
    postgres: Backend, postgres_server: Postgres
) -> None:
    receipts = _receipts(postgres)

    async def crash() -> None:
        await to_thread.run_sync(postgres_server.crash)
        await to_thread.run_sync(postgres_server.start)

    inner = LedgerApp(postgres, "atomic", after=crash)
    app = postgres.protect(inner, effects="atomic", receipts=receipts, lease_s=0.5)

    first = await send(app)
    inner.after = LedgerApp(postgres).after
    await anyio.sleep(0.5)
    again = await _until_served(app, Request())

    assert first.status >= 500
    assert again.brief == FRESH
    assert postgres.ledger.rows() == ["atomic"]


async def test_an_external_effect_whose_receipt_was_lost_is_unknown_and_not_repeated(
    postgres: Backend, postgres_server: Postgres
) -> None:
    receipts = _receipts(postgres)
    inner = LedgerApp(postgres, after=lambda: to_thread.run_sync(postgres_server.crash))
    app = postgres.protect(inner, receipts=receipts, lease_s=0.5)

    first = await send(app)
    await to_thread.run_sync(postgres_server.start)
    await anyio.sleep(0.5)
    again = await _until_served(app, Request())

    assert first.brief == FRESH
    assert again.problem is ProblemKind.OUTCOME_UNKNOWN
    assert len(postgres.ledger.rows()) == 1


async def test_a_receipt_that_was_answered_from_survives_a_crash_of_postgres(
    postgres: Backend, postgres_server: Postgres
) -> None:
    app = postgres.protect(LedgerApp(postgres, "atomic"), effects="atomic", lock="local")

    first = await send(app)
    await to_thread.run_sync(postgres_server.crash)
    await to_thread.run_sync(postgres_server.start)
    again = await _until_served(app, Request())

    assert (first.brief, again.brief) == (FRESH, REPLAY)
    assert postgres.ledger.rows() == ["atomic"]


async def test_a_postgres_that_became_read_only_executes_nothing_and_says_so(
    postgres: Backend,
) -> None:
    """A failover can leave the pool on what is now a standby."""
    inner = LedgerApp(postgres)
    read_only = postgres.receipts_url + "?options=-cdefault_transaction_read_only%3Don"

    answer = await send(postgres.protect(inner, receipts=read_only))

    assert answer.brief == UNAVAILABLE
    assert inner.bodies_read == []


def _calls(redis: Redis, name: str) -> Hook:
    async def hook() -> None:
        await to_thread.run_sync(getattr(redis, name))

    return hook


@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize(
    ("fault", "effects"), [("stop", "external"), ("crash", "atomic"), ("flush", "external")]
)
async def test_the_loss_of_redis_at_any_moment_executes_nothing_twice(
    postgres: Backend, redis_server: Redis, effects: EffectsOption, moment: str, fault: str
) -> None:
    lose, gate = _calls(redis_server, fault), Gate()
    app = postgres.protect(LedgerApp(postgres, effects, after=gate), effects=effects)
    answers, duplicates = list[Answer](), list[Answer]()

    async def first() -> None:
        answers.append(await send(app))

    if moment == "before":
        await lose()
    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await gate.entered.wait()
        if moment == "during":
            await lose()
        duplicates += await send_all([partial(send, app) for _ in range(4)])
        gate.opened.set()
    if moment == "after":
        await lose()
    again = await send(app)

    assert [each.brief for each in answers] == [FRESH]
    assert {each.brief for each in duplicates} == {IN_FLIGHT}
    assert again.brief == REPLAY
    assert len(postgres.ledger.rows()) == 1


async def test_a_frozen_redis_delays_a_request_and_does_not_fail_it(
    postgres: Backend, redis_server: Redis
) -> None:
    app = postgres.protect(LedgerApp(postgres))
    await send(app, Request(key=b'"warm"'))

    await to_thread.run_sync(redis_server.freeze)
    with anyio.fail_after(10):
        answers = [await send(app) for _ in range(2)]
    await to_thread.run_sync(redis_server.thaw)

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert len(postgres.ledger.rows()) == 2


@pytest.mark.parametrize("value", [b"", b"garbage", b"L", b"R", b"Rgarbage", b"L" + b"x" * 16])
async def test_a_damaged_value_in_redis_counts_as_an_outage(
    postgres: Backend, value: bytes
) -> None:
    client = Client.from_url(postgres.lock_url)
    await client.set("replayfloor:" + receipt_id("default", None, "k-1").hex(), value)
    await client.aclose()
    app = postgres.protect(LedgerApp(postgres))

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert len(postgres.ledger.rows()) == 1
