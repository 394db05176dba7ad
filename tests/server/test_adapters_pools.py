"""SQLAlchemy's pools: every connection of a handler comes back, and none in a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import cast

import anyio
import pytest
from anyio import from_thread
from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool
from starlette.types import ASGIApp, Scope

from replayfloor.server.adapters import sqlalchemy_async
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts
from server.adapters_common import (
    AT_ONCE,
    FRESH,
    OTHER,
    UNAVAILABLE,
)
from server.adapters_sqlalchemy import (
    ASYNCHRONOUS,
    ON_POSTGRES,
    POOL_OF_ONE,
    Site,
    check_given_back,
    check_recovered,
    site_on,
    write,
)
from server.apps import Gate
from server.backends import Ledger, claim_of
from server.cancelling import CANCELLERS, Canceller
from server.wire import Answer, Request, send, send_all
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


class Held:
    """Holds up the first handler, whichever colour it has."""

    def __init__(self) -> None:
        self.gate = Gate()

    def protect(self, site: Site) -> ASGIApp:
        """Return a worker whose handler waits at the gate."""

        async def asynchronous(scope: Scope) -> None:
            await self.gate()
            await cast("AsyncConnection", claim_of(scope).connection).run_sync(write)

        def blocking(claim: object) -> None:
            from_thread.run(self.gate)
            write(getattr(claim, "connection"))  # noqa: B009 - of either colour

        return site.protect(blocking, asynchronous)


@pytest.mark.parametrize("name", ON_POSTGRES)
async def test_a_handler_that_gets_no_connection_is_told_to_come_back(
    emptied_url: str, name: str
) -> None:
    options = {**POOL_OF_ONE, "pool_timeout": 0.2}
    held, answers = Held(), list[Answer]()

    async def collect(app: ASGIApp, request: Request) -> None:
        answers.append(await send(app, request))

    async with site_on(name, Ledger(emptied_url), **options) as site:
        app = held.protect(site)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(collect, app, Request())
                await held.gate.entered.wait()
                await collect(app, OTHER)
                held.gate.opened.set()
            await collect(app, OTHER)

        assert [each.brief for each in answers] == [UNAVAILABLE, FRESH, FRESH]
        assert int(answers[0].first(b"retry-after") or b"0") >= 1
        assert site.ledger.rows() == ["atomic", "atomic"]
        await check_given_back(site)


async def test_many_handlers_take_turns_on_one_connection(site: Site) -> None:
    """The protocol has connections of its own: who holds the engine's last one can still finish."""
    app = site.on_connection(write)
    requests = [Request(key=b'"k-%d"' % n) for n in range(AT_ONCE)]
    with anyio.fail_after(10):
        answers = await send_all([partial(send, app, request) for request in requests])

    assert {each.brief for each in answers} == {FRESH}
    assert len(site.ledger.rows()) == AT_ONCE
    await check_given_back(site)


async def test_a_connection_whose_rollback_fails_is_not_lost_to_the_pool(site: Site) -> None:
    """As one of the application's own listeners may make it."""
    engine = site.engine.sync_engine if isinstance(site.engine, AsyncEngine) else site.engine
    failing: list[object] = [None]

    @event.listens_for(engine, "rollback")
    def fail(_connection: Connection) -> None:
        if failing:
            failing.pop()
            raise RuntimeError("not today")

    kept: list[Connection] = []  # so that it is not given back as garbage

    def body(connection: Connection) -> int:
        kept.append(connection)
        write(connection)
        return 503

    assert (await send(site.on_connection(body))).status == 503
    assert failing == []
    assert site.ledger.rows() == []
    await check_given_back(site)
    await check_recovered(site)


# -- cancellations --------------------------------------------------------------------------------


@pytest.fixture(params=ASYNCHRONOUS)
async def asynchronous(request: pytest.FixtureRequest, emptied_url: str) -> AsyncIterator[Site]:
    """An asynchronous application with one connection for handlers."""
    async with site_on(request.param, Ledger(emptied_url), **POOL_OF_ONE) as made:
        yield made


async def cancel_in_a_statement(site: Site, canceller: Canceller) -> None:
    """Cancel a request while the server is busy with a statement of its handler."""

    async def handler(scope: Scope) -> None:
        connection = cast("AsyncConnection", claim_of(scope).connection)
        await connection.run_sync(write)
        await connection.execute(text("select pg_sleep(60)"))

    gate = Gate()

    async def watch() -> None:
        query = "select 1 from pg_stat_activity where query = 'select pg_sleep(60)'"
        while not gate.entered.is_set():
            await anyio.sleep(0.01)
            if site.ledger.run(query):
                gate.entered.set()

    app = site.protect(lambda _claim: None, handler)
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await canceller(app, gate, Request())


@pytest.mark.parametrize("canceller", CANCELLERS)
async def test_a_statement_that_is_cancelled_leaves_no_transaction_open(
    asynchronous: Site, canceller: Canceller
) -> None:
    with anyio.fail_after(10):
        await cancel_in_a_statement(asynchronous, canceller)

    assert asynchronous.ledger.rows() == []
    await check_given_back(asynchronous)
    await check_recovered(asynchronous)


@pytest.mark.parametrize("canceller", CANCELLERS)
async def test_a_handler_that_is_cancelled_between_its_statements_is_undone(
    asynchronous: Site, canceller: Canceller
) -> None:
    gate = Gate()

    async def handler(scope: Scope) -> None:
        await cast("AsyncConnection", claim_of(scope).connection).run_sync(write)
        await gate()

    app = asynchronous.protect(lambda _claim: None, handler)
    with anyio.fail_after(10):
        await canceller(app, gate, Request())

    assert asynchronous.ledger.rows() == []
    await check_given_back(asynchronous)
    await check_recovered(asynchronous)


async def test_a_rollback_is_carried_out_whoever_is_cancelled(asynchronous: Site) -> None:
    store = cast("AsyncSQLAlchemyReceipts", asynchronous.receipts)

    async def session_of(connection: object) -> int:
        query = text("select pg_backend_pid()")
        return int((await cast("AsyncConnection", connection).execute(query)).scalar_one())

    first = await store.begin()
    before = await session_of(first.connection)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await first.rollback()
    second = await store.begin()

    assert await session_of(second.connection) == before
    await second.rollback()


async def test_a_cancelled_wait_for_a_connection_takes_none(asynchronous: Site) -> None:
    held = Held()
    app = held.protect(asynchronous)
    answers: list[Answer] = []

    async def collect() -> None:
        answers.append(await send(app))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(collect)
            await held.gate.entered.wait()
            with anyio.move_on_after(0.2):
                answers.append(await send(app, OTHER))
            held.gate.opened.set()

    assert [each.brief for each in answers] == [FRESH]
    assert (await send(app, OTHER)).brief == FRESH
    assert asynchronous.ledger.rows() == ["atomic", "atomic"]
    await check_given_back(asynchronous)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
async def test_a_rollback_that_gets_no_answer_does_not_keep_the_request(
    name: str,
    emptied_url: str,
    proxy: TcpProxy,
    postgres_server: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlalchemy_async, "GIVE_BACK_S", 0.3)
    url = emptied_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")

    async def handler(scope: Scope) -> None:
        await cast("AsyncConnection", claim_of(scope).connection).run_sync(write)
        proxy.hold()
        raise RuntimeError("undo this")

    async with site_on(name, Ledger(emptied_url), url, **POOL_OF_ONE) as site:
        with anyio.fail_after(8):
            answer = await send(site.protect(lambda _claim: None, handler))

        assert isinstance(answer.raised, RuntimeError)
        assert cast("QueuePool", site.engine.pool).checkedout() == 0
        assert site.ledger.rows() == []
        proxy.heal()
        await check_recovered(site)
