"""What an asynchronous handler cannot do with its transaction's connection: end it, or keep it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import anyio
import psycopg
import pytest
from psycopg.rows import dict_row

from replayfloor.core.claims import Finish, InFlight
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.loans import (
    ENDING,
    INSERT,
    OPERATION_S,
    as_async_psycopg,
    empty_ledger,
    entries,
    migrated_database,
)
from support.services import Services

if TYPE_CHECKING:
    from psycopg.abc import QueryNoTemplate  # from 3.3 on

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def migrated(services: Services) -> Iterator[str]:
    """A migrated database with a ledger."""
    with migrated_database(services, "loans_async") as url:
        yield url


@pytest.fixture
def url(migrated: str) -> str:
    """The database, with the ledger empty."""
    return empty_ledger(migrated)


@pytest.fixture
async def asynchronous(url: str) -> AsyncIterator[AsyncPostgresReceipts]:
    """An asynchronous store."""
    store = AsyncPostgresReceipts(url, handler_connections=1, operation_s=OPERATION_S)
    yield store
    await store.close()


@pytest.mark.parametrize("query", ENDING, ids=repr)
async def test_no_asynchronous_cursor_ends_the_transaction(
    url: str, asynchronous: AsyncPostgresReceipts, query: QueryNoTemplate
) -> None:
    transaction = await asynchronous.begin()
    connection = as_async_psycopg(transaction.connection)
    await connection.execute(INSERT)
    cursor, named = connection.cursor(), connection.cursor("named")
    ways: list[Callable[[], Awaitable[object]]] = [
        lambda: connection.execute(query),
        lambda: cursor.execute(query),
        lambda: cursor.executemany(query, [()]),
        lambda: cursor.stream(query).__anext__(),
        lambda: cursor.copy(query).__aenter__(),
        lambda: cursor.connection.execute(query),
        lambda: named.execute(query),
    ]
    for way in ways:
        with pytest.raises(UsageError, match="ended by the middleware"):
            await way()

    await named.close()
    await transaction.rollback()
    assert entries(url) == 0


async def test_an_asynchronous_view_does_what_psycopg_does(
    url: str, asynchronous: AsyncPostgresReceipts
) -> None:
    id_, fence = new_id(), new_fence()
    await asynchronous.claim(claim(id_, fence))
    transaction = await asynchronous.begin()
    connection = as_async_psycopg(transaction.connection)
    connection.row_factory = dict_row
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany("insert into ledger values (%s)", [(1,), (2,)])
        async with cursor.copy("copy ledger from stdin") as copy:
            await copy.write_row((3,))
        await cursor.execute("select entry from ledger order by entry")
        assert await cursor.fetchone() == {"entry": 1}
        assert [row async for row in cursor] == [{"entry": 2}, {"entry": 3}]
        assert [row async for row in cursor.stream("select 4 as entry")] == [{"entry": 4}]
    async with connection.cursor("named") as named:
        await named.execute("select entry from ledger order by entry")
        assert [row async for row in named] == [{"entry": 1}, {"entry": 2}, {"entry": 3}]
    with pytest.raises(psycopg.ProgrammingError, match="forbidden within a Transaction"):
        await connection.commit()

    assert await transaction.commit(Finish(id_, fence, receipt()))
    assert entries(url) == 3


async def test_after_the_end_no_asynchronous_cursor_reaches_the_server(
    url: str, asynchronous: AsyncPostgresReceipts
) -> None:
    first = await asynchronous.begin()
    connection = as_async_psycopg(first.connection)
    cursor, named = connection.cursor(), connection.cursor("named")
    await named.execute("select 1 as entry")
    await first.rollback()
    second = await asynchronous.begin()
    ways: list[Callable[[], Awaitable[object]]] = [
        lambda: connection.execute(INSERT),
        lambda: cursor.execute(INSERT),
        lambda: cursor.executemany(INSERT, [()]),
    ]
    for way in ways:
        with pytest.raises(UsageError, match="has ended"):
            await way()
    with pytest.raises(UsageError, match="has ended"):
        await named.fetchone()
    await named.close()

    await second.connection.execute("select 1")
    await second.rollback()
    assert entries(url) == 0


async def test_a_task_left_running_does_not_hold_up_the_end(
    url: str, asynchronous: AsyncPostgresReceipts
) -> None:
    id_, fence = new_id(), new_fence()
    await asynchronous.claim(claim(id_, fence))
    transaction = await asynchronous.begin()
    connection = as_async_psycopg(transaction.connection)
    await connection.execute(INSERT)
    ended: list[Exception] = []

    async def left_behind() -> None:
        try:
            await connection.execute("select pg_sleep(30)")
        except psycopg.Error as error:
            ended.append(error)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(left_behind)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StoreUnavailable) as raised:
                await transaction.commit(Finish(id_, fence, receipt()))
            assert raised.value.performed is False

    assert len(ended) == 1
    assert entries(url) == 0
    await (await asynchronous.begin()).rollback()


async def test_a_stream_read_half_way_does_not_hold_up_the_end(
    asynchronous: AsyncPostgresReceipts,
) -> None:
    id_, fence = new_id(), new_fence()
    await asynchronous.claim(claim(id_, fence))
    transaction = await asynchronous.begin()
    cursor = as_async_psycopg(transaction.connection).cursor(row_factory=dict_row)
    rows = cursor.stream("select generate_series(1, 9) as entry")
    assert await anext(rows) == {"entry": 1}

    with anyio.fail_after(5), pytest.raises(StoreUnavailable):
        await transaction.commit(Finish(id_, fence, receipt()))
    assert isinstance(await asynchronous.claim(claim(id_, new_fence())), InFlight)
    await (await asynchronous.begin()).rollback()
