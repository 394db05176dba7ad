"""The pools of the Postgres store: opened once, by whoever comes first, and given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import psycopg
import pytest

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import all_at_once, claim, new_fence, new_id
from server.backends import no_connection_is_left

pytestmark = pytest.mark.anyio

NOBODY = "postgresql://u@127.0.0.1:1/d"  # nothing listens on port 1
OPERATION_S = 0.5


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[AsyncPostgresReceipts]:
    """A store on a migrated database; closed also if the test fails, as its pools would go on."""
    migrate(postgres_url)
    store = AsyncPostgresReceipts(postgres_url, pool_connections=4)
    yield store
    await store.close()


async def test_simultaneous_first_requests_open_one_pair_of_pools(
    postgres_url: str, store: AsyncPostgresReceipts
) -> None:
    await all_at_once([partial(store.claim, claim(new_id(), new_fence())) for _ in range(32)])
    await store.close()

    await no_connection_is_left(postgres_url)


async def test_requests_that_find_no_database_do_not_wait_for_each_other() -> None:
    store = AsyncPostgresReceipts(NOBODY, operation_s=OPERATION_S)
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


async def test_an_idle_connection_that_the_server_closed_costs_no_request(
    postgres_url: str, store: AsyncPostgresReceipts
) -> None:
    await all_at_once([partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)])

    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'replayfloor'"
        )
    answers = await all_at_once(
        [partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)]
    )

    assert len(answers) == 16
