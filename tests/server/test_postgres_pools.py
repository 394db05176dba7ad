"""The pools of the Postgres stores: opened once, by whoever comes first, and given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import psycopg
import pytest

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores import AsyncReceipts
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import all_at_once, claim, new_fence, new_id
from replayfloor.testing.threads import in_threads
from server.backends import no_connection_is_left

pytestmark = pytest.mark.anyio

NOBODY = "postgresql://u@127.0.0.1:1/d"  # nothing listens on port 1
OPERATION_S = 0.5
COLOURS = ("async", "blocking")


def make(colour: str, url: str, operation_s: float = 5.0) -> AsyncReceipts:
    """Return a store of either colour."""
    if colour == "async":
        return AsyncPostgresReceipts(url, pool_connections=4, operation_s=operation_s)
    return in_threads(PostgresReceipts(url, pool_connections=4, operation_s=operation_s))


@pytest.fixture(params=COLOURS)
async def store(
    request: pytest.FixtureRequest, migrated_own_url: str
) -> AsyncIterator[AsyncReceipts]:
    """A store on a migrated database; closed also if the test fails, as its pools would go on."""
    store = make(request.param, migrated_own_url)
    yield store
    await store.close()


async def test_simultaneous_first_requests_open_one_pair_of_pools(
    migrated_own_url: str, store: AsyncReceipts
) -> None:
    await all_at_once([partial(store.claim, claim(new_id(), new_fence())) for _ in range(32)])
    await store.close()

    await no_connection_is_left(migrated_own_url)


@pytest.mark.parametrize("colour", COLOURS)
async def test_requests_that_find_no_database_do_not_wait_for_each_other(colour: str) -> None:
    store = make(colour, NOBODY, OPERATION_S)
    refused: list[StoreUnavailable] = []

    async def ask() -> None:
        with pytest.raises(StoreUnavailable) as raised:
            await store.claim(claim(new_id(), new_fence()))
        refused.append(raised.value)

    with anyio.fail_after(10 * OPERATION_S):
        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(ask)

    assert len(refused) == 32
    assert {each.performed for each in refused} == {False}


@pytest.mark.parametrize("colour", COLOURS)
async def test_a_request_right_after_a_failed_opening_is_refused_at_once(colour: str) -> None:
    store = make(colour, NOBODY, OPERATION_S)
    with pytest.raises(StoreUnavailable, match="no connection"):
        await store.claim(claim(new_id(), new_fence()))

    with pytest.raises(StoreUnavailable, match="a moment ago") as raised:
        await store.claim(claim(new_id(), new_fence()))
    assert raised.value.performed is False


async def test_an_idle_connection_that_the_server_closed_costs_no_request(
    migrated_own_url: str, store: AsyncReceipts
) -> None:
    await all_at_once([partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)])

    with psycopg.connect(migrated_own_url, autocommit=True) as database:
        # With the time it may take, so that it returns when they have gone, and not before.
        database.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and application_name = 'replayfloor'"
        )
    answers = await all_at_once(
        [partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)]
    )

    assert len(answers) == 16


async def test_handlers_that_hold_every_connection_hold_up_no_claim(
    store: AsyncReceipts,
) -> None:
    held = [await store.begin() for _ in range(10)]
    with anyio.fail_after(3):
        await store.claim(claim(new_id(), new_fence()))
    for transaction in held:
        await transaction.rollback()
