"""SQLAlchemy on a Postgres that goes away: nothing is written twice, or without a receipt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import cast

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.adapters_common import (
    FAILS_AT_COMMIT,
    FRESH,
    LOSES_ITS_CONNECTION_AT_COMMIT,
    OTHER,
    REPLAY,
    UNAVAILABLE,
)
from server.adapters_sqlalchemy import (
    ON_POSTGRES,
    POOL_OF_ONE,
    Site,
    check_given_back,
    check_recovered,
    site_on,
    write,
)
from server.backends import Ledger
from server.wire import send
from support.services import Postgres
from support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.anyio


@pytest.fixture(params=ON_POSTGRES)
async def site(request: pytest.FixtureRequest, emptied_url: str) -> AsyncIterator[Site]:
    """An application with one connection for handlers: one that is lost is missed at once."""
    options = {**POOL_OF_ONE, "pool_timeout": 10.0}
    async with site_on(request.param, Ledger(emptied_url), **options) as made:
        yield made


@pytest.fixture
def proxy(postgres_server: Postgres) -> Iterator[TcpProxy]:
    """What stands between the engine and Postgres, and not between the receipts and Postgres."""
    with tcp_proxy(postgres_server.port) as made:
        yield made


@pytest.fixture(params=ON_POSTGRES)
async def behind(
    request: pytest.FixtureRequest, emptied_url: str, proxy: TcpProxy, postgres_server: Postgres
) -> AsyncIterator[Site]:
    """An application whose engine is behind the proxy."""
    url = emptied_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    async with site_on(request.param, Ledger(emptied_url), url, **POOL_OF_ONE) as made:
        yield made
        proxy.heal()


def statements(*script: str) -> Callable[[Connection], None]:
    """Return a handler that writes a row and runs these."""

    def body(connection: Connection) -> None:
        write(connection)
        for statement in script:
            connection.exec_driver_sql(statement)

    return body


# -- the handler ----------------------------------------------------------------------------------


def kill(site: Site, connection: Connection) -> None:
    """End the handler's session on the server."""
    pid = connection.execute(text("select pg_backend_pid()")).scalar_one()
    site.ledger.run("select pg_terminate_backend(%s, 5000)", (pid,))


async def test_a_handler_that_overlooks_its_lost_connection_has_no_receipt(site: Site) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        kill(site, connection)
        with pytest.raises(DBAPIError):
            write(connection)

    assert (await send(site.on_connection(body))).brief == UNAVAILABLE
    assert site.ledger.rows() == []
    await check_recovered(site)


async def test_a_connection_that_is_lost_before_the_finish_is_a_store_that_is_unavailable(
    site: Site,
) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        kill(site, connection)

    assert (await send(site.on_connection(body))).brief == UNAVAILABLE
    assert site.ledger.rows() == []
    await check_recovered(site)


async def test_a_handler_that_fails_with_its_connection_is_undone(site: Site) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        kill(site, connection)
        write(connection)

    answer = await send(site.on_connection(body))

    assert answer.status == 500
    assert isinstance(answer.raised, DBAPIError)
    assert site.ledger.rows() == []
    await check_recovered(site)


# -- the commit -----------------------------------------------------------------------------------


async def test_a_commit_that_a_constraint_refuses_is_undone(site: Site) -> None:
    answer = await send(site.on_connection(statements(*FAILS_AT_COMMIT)))

    assert answer.status == 500
    assert isinstance(answer.raised, IntegrityError)
    assert site.ledger.rows() == []
    await check_recovered(site)


async def test_a_commit_that_loses_its_connection_is_found_out_about(site: Site) -> None:
    answer = await send(site.on_connection(statements(*LOSES_ITS_CONNECTION_AT_COMMIT)))

    assert answer.brief == UNAVAILABLE
    assert site.ledger.rows() == []
    await check_recovered(site)


async def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(
    behind: Site, proxy: TcpProxy
) -> None:
    app = behind.on_connection(write)
    warm = await send(app, OTHER)
    # To its end: asyncpg's BEGIN says READ COMMITTED.
    proxy.lose_answer(b"COMMIT;\0" if behind.name == "asyncpg" else b"COMMIT\0")
    answers = [(await send(app)).brief for _ in range(2)]

    assert proxy.lost
    assert [warm.brief, *answers] == [FRESH, FRESH, REPLAY]
    assert behind.ledger.rows() == ["atomic", "atomic"]
    await check_given_back(behind)


async def test_a_finish_whose_answer_was_lost_is_undone(behind: Site, proxy: TcpProxy) -> None:
    app = behind.on_connection(write)
    proxy.lose_answer(b"finish_v2")
    first = await send(app)

    assert proxy.lost
    assert first.brief == UNAVAILABLE
    assert behind.ledger.rows() == []
    await check_recovered(behind)


@pytest.mark.parametrize("name", ON_POSTGRES)
async def test_a_conflict_of_transactions_at_the_finish_may_be_tried_again(
    emptied_url: str, name: str
) -> None:
    """Above READ COMMITTED the claim must not change after the handler's first statement."""

    async with site_on(name, Ledger(emptied_url), isolation_level="SERIALIZABLE") as site:

        def body(connection: Connection) -> None:
            write(connection)
            site.ledger.run("update replayfloor.claims set lease_until = lease_until + '1 s'")

        assert (await send(site.on_connection(body))).brief == UNAVAILABLE
        assert site.ledger.rows() == []


@pytest.mark.parametrize("lost", ["before", "during"])
async def test_whether_a_commit_was_sent_is_told(site: Site, lost: str) -> None:
    """Once it was, nobody can tell what became of it; before that, nothing did."""
    body = statements(*LOSES_ITS_CONNECTION_AT_COMMIT) if lost == "during" else partial(kill, site)
    taken = claim(new_id(), new_fence())
    finish = Finish(taken.id, taken.fence, receipt())
    if isinstance(site.receipts, AsyncSQLAlchemyReceipts):
        await site.receipts.claim(taken)
        transaction = await site.receipts.begin()
        await cast("AsyncConnection", transaction.connection).run_sync(body)
        with pytest.raises(StoreUnavailable) as raised:
            await transaction.commit(finish)
    else:
        site.receipts.claim(taken)
        blocking = site.receipts.begin()
        body(cast("Connection", blocking.connection))
        with pytest.raises(StoreUnavailable) as raised:
            blocking.commit(finish)

    assert raised.value.performed is (None if lost == "during" else False)


# -- connecting -----------------------------------------------------------------------------------


async def test_an_engine_that_cannot_connect_is_a_store_that_is_unavailable(
    behind: Site, proxy: TcpProxy
) -> None:
    proxy.cut()
    answer = await send(behind.on_connection(write))
    proxy.heal()

    assert answer.brief == UNAVAILABLE
    await check_recovered(behind)


async def test_an_engine_that_may_not_connect_is_a_store_that_is_unavailable(
    emptied_url: str,
) -> None:
    """The server's own refusal, which asyncpg reports before SQLAlchemy is there to translate."""
    nobody = emptied_url.replace("postgres@", "nobody@")
    for name in ON_POSTGRES:
        async with site_on(name, Ledger(emptied_url), nobody) as site:
            assert (await send(site.on_connection(write))).brief == UNAVAILABLE
