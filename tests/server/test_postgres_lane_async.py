"""Batches of the asynchronous store keep a connection each, and lose nothing by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from time import monotonic

import anyio
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from replayfloor.core.claims import Abandon, Claimed, Finish, Finished, InFlight, Renew
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_batch import RESPONSE_BYTES_MAX
from replayfloor.server.stores.postgres_connection_async import Pool
from replayfloor.server.stores.postgres_direct import claim_written
from replayfloor.server.stores.postgres_lane_async import KEPT_S, AsyncLane
from replayfloor.server.stores.postgres_options import (
    LANES_FROM,
    OPERATION_S,
    POOL_CONNECTIONS,
)
from replayfloor.server.stores.protocols import Row
from replayfloor.testing.contract import LONG_MS, claim, new_fence, new_id, receipt
from server.backends import no_connection_is_left
from support.services import Postgres

pytestmark = pytest.mark.anyio

SOON_S = 1.0
MARGIN_S = 1.5  # for a busy machine
AT_ONCE = 8

BACKENDS = """
select pid from pg_stat_activity
where application_name = 'replayfloor' and datname = current_database()
"""


@pytest.fixture
async def store(migrated_own_url: str) -> AsyncIterator[AsyncPostgresReceipts]:
    async with opened(migrated_own_url, operation_s=SOON_S) as store:
        yield store


@asynccontextmanager
async def opened(
    url: str, operation_s: float = OPERATION_S, pool_connections: int = POOL_CONNECTIONS
) -> AsyncIterator[AsyncPostgresReceipts]:
    """Open a store, and close it whatever becomes of the test: its pools' tasks outlast their loop
    otherwise."""
    store = AsyncPostgresReceipts(url, operation_s=operation_s, pool_connections=pool_connections)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def pool(migrated_own_url: str) -> AsyncIterator[Pool]:
    kwargs = {"autocommit": True}
    pool: Pool = AsyncConnectionPool(
        migrated_own_url,
        connection_class=psycopg.AsyncConnection[Row],
        min_size=1,
        kwargs=kwargs,
        open=False,
    )
    async with pool:
        yield pool


async def execute(store: AsyncPostgresReceipts) -> None:
    """Claim several keys at once, finish them, and see that they are."""

    async def one() -> None:
        id_, fence = new_id(), new_fence()
        assert await store.claim(claim(id_, fence)) == Claimed()
        assert await store.finish(Finish(id_, fence, receipt()))
        assert await store.claim(claim(id_, new_fence())) == Finished(receipt())

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(one)


@pytest.mark.parametrize("connections", [1, 2, LANES_FROM])
async def test_a_small_pool_has_a_connection_for_every_kind_of_operation(
    migrated_own_url: str, connections: int
) -> None:
    async with opened(migrated_own_url, pool_connections=connections, operation_s=SOON_S) as store:
        id_, fence = new_id(), new_fence()
        await store.claim(claim(id_, fence))
        await execute(store)

        assert await store.renew(Renew(id_, fence, LONG_MS))
        assert await store.abandon(Abandon(id_, fence))


async def test_batches_that_follow_one_another_have_the_same_connections(
    store: AsyncPostgresReceipts, migrated_own_url: str
) -> None:
    await execute(store)
    first = backends(migrated_own_url)
    await execute(store)

    assert backends(migrated_own_url) == first


@pytest.mark.parametrize("heard_s", [0, 0.05], ids=["not heard of", "heard of"])
async def test_no_request_fails_on_a_connection_that_the_server_has_closed_while_it_was_idle(
    migrated_own_url: str, heard_s: float
) -> None:
    async with opened(migrated_own_url) as store:  # a pool of psycopg takes a second to go on
        await execute(store)
        terminate(migrated_own_url)
        await asyncio.sleep(heard_s)
        await execute(store)


async def test_a_farewell_that_is_heard_while_idle_keeps_the_loop_no_more_busy(
    store: AsyncPostgresReceipts, migrated_own_url: str
) -> None:
    await execute(store)
    terminate(migrated_own_url)
    steps = await steps_of_the_loop(0.1)

    assert steps < 50


async def test_after_a_restart_of_the_server_the_next_request_succeeds(
    store: AsyncPostgresReceipts, postgres_server: Postgres
) -> None:
    await execute(store)
    postgres_server.crash()
    postgres_server.restore()

    await execute(store)


async def test_a_connection_is_kept_for_a_limited_time(pool: Pool) -> None:
    now = 0.0
    lane = AsyncLane(lambda: now)
    first = await pid_of(lane, pool)
    await pool.drain()  # replaces each connection that comes back

    now = KEPT_S - 1
    assert await pid_of(lane, pool) == first
    now = KEPT_S
    assert await pid_of(lane, pool) != first
    await lane.leave()


async def test_a_batch_that_is_cancelled_half_way_gives_its_answer_to_nobody_else(
    pool: Pool,
) -> None:
    lane = AsyncLane()
    first = await pid_of(lane, pool)
    with anyio.move_on_after(0.1):
        await lane.ask(pool, "select 'late' from pg_sleep(0.3)", {}, monotonic() + 5)

    assert await pid_of(lane, pool) != first
    assert pool.get_stats().get("requests_errors", 0) == 0
    await lane.leave()


async def test_a_server_that_hangs_ends_a_batch_in_time_and_is_asked_again_afterwards(
    store: AsyncPostgresReceipts, postgres_server: Postgres
) -> None:
    await execute(store)
    postgres_server.freeze()
    asking = asyncio.create_task(failures_of(store))
    # The first alone, the others together.
    in_time, _ = await asyncio.wait({asking}, timeout=2 * SOON_S + MARGIN_S)
    postgres_server.thaw()

    assert in_time
    assert len(await asking) == AT_ONCE
    await execute(store)


async def test_what_the_server_refuses_is_raised_and_the_next_batch_goes_on(
    store: AsyncPostgresReceipts,
) -> None:
    id_, fence = new_id(), new_fence()
    await store.claim(claim(id_, fence))
    refused = Receipt(receipt().fingerprint, Response(7, (), b""))  # no status of HTTP
    with pytest.raises(psycopg.errors.CheckViolation):
        await store.finish(Finish(id_, fence, refused))

    assert isinstance(await store.claim(claim(id_, new_fence())), InFlight)
    assert await store.finish(Finish(id_, fence, receipt()))


async def test_a_batch_that_exceeds_what_the_socket_takes_at_once_arrives_whole(
    store: AsyncPostgresReceipts,
) -> None:
    body = bytes(range(256)) * (RESPONSE_BYTES_MAX // 256)
    large = replace(receipt(), response=Response(201, (), body))
    keys = [(new_id(), new_fence()) for _ in range(64)]
    await asyncio.gather(*[store.claim(claim(*each)) for each in keys])

    done = await asyncio.gather(*[store.finish(Finish(*each, large)) for each in keys])
    seen = await asyncio.gather(*[store.claim(claim(id_, new_fence())) for id_, _fence in keys])

    assert done == [True] * 64
    assert seen == [Finished(large)] * 64


async def test_closing_while_a_batch_is_under_way_loses_no_answer_and_leaves_no_connection(
    store: AsyncPostgresReceipts, migrated_own_url: str
) -> None:
    await execute(store)
    id_ = new_id()
    with psycopg.connect(migrated_own_url) as holding:
        holding.execute(load("sql/postgres/claim.sql"), parameters_of(id_))
        asking = asyncio.create_task(store.claim(claim(id_, new_fence())))
        await asyncio.sleep(0.1)  # it waits for the other transaction now
        await store.close()
        holding.rollback()

    assert await asking == Claimed()
    await no_connection_is_left(migrated_own_url)


def test_a_store_that_was_left_open_is_used_by_a_second_event_loop(migrated_own_url: str) -> None:
    store = AsyncPostgresReceipts(migrated_own_url, operation_s=SOON_S)
    id_, fence = new_id(), new_fence()

    async def first() -> None:
        assert await store.claim(claim(id_, fence)) == Claimed()

    async def second() -> None:
        # One that has no lane comes first: what the lanes hold must be there for it.
        assert await store.renew(Renew(id_, fence, LONG_MS))
        assert await store.finish(Finish(id_, fence, receipt()))
        assert await store.claim(claim(id_, new_fence())) == Finished(receipt())
        assert await store.claim(claim(new_id(), new_fence())) == Claimed()

    asyncio.run(first())
    asyncio.run(second())


async def failures_of(store: AsyncPostgresReceipts) -> list[StoreUnavailable]:
    failures: list[StoreUnavailable] = []

    async def one() -> None:
        try:
            await store.claim(claim(new_id(), new_fence()))
        except StoreUnavailable as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(one)
    return failures


async def pid_of(lane: AsyncLane, pool: Pool) -> bytes | None:
    result = await lane.ask(pool, "select pg_backend_pid()", {}, monotonic() + 5)
    return result.get_value(0, 0)


async def steps_of_the_loop(seconds: float) -> int:
    """Return how often the event loop wakes up in a time in which there is nothing to do."""
    loop = asyncio.get_running_loop()
    selector = loop._selector  # type: ignore[attr-defined]
    steps, select = 0, selector.select

    def counted(timeout: float | None = None) -> object:
        nonlocal steps
        steps += 1
        return select(timeout)

    selector.select = counted
    try:
        await asyncio.sleep(seconds)
    finally:
        with suppress(AttributeError):
            del selector.select
    return steps


def parameters_of(id_: object) -> dict[str, object]:
    written = claim_written(claim(id_, new_fence()))  # type: ignore[arg-type]
    return {name: None if value is None else value.decode() for name, value in written.items()}


def terminate(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as killing:
        killing.execute(f"select pg_terminate_backend(pid, 5000) from ({BACKENDS}) as them")


def backends(url: str) -> set[int]:
    with psycopg.connect(url, autocommit=True) as watching:
        return {pid for (pid,) in watching.execute(BACKENDS).fetchall()}
