"""SQLAlchemy on a Postgres that goes away: nothing is written twice, or without a receipt, and no
connection is lost to the pool or comes back to it in the middle of a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import cast

import anyio
import pytest
from anyio import from_thread
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool
from starlette.types import ASGIApp, Scope

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server.adapters import sqlalchemy_async
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.adapters_sqlalchemy import ASYNCHRONOUS, Site, engine_for, write
from server.apps import Gate
from server.backends import Ledger, claim_of
from server.cancelling import CANCELLERS, Canceller
from server.wire import Answer, Request, send, send_all
from support.services import Postgres
from support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.anyio

FRESH = (201, None, False)
REPLAY = (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)
OTHER = Request(key=b'"other"')
POOL_OF_ONE = {"pool_size": 1, "max_overflow": 0}
KINDS = ["psycopg-blocking", *ASYNCHRONOUS]
AT_ONCE = 16


@pytest.fixture(params=KINDS)
async def site(request: pytest.FixtureRequest, emptied_url: str) -> AsyncIterator[Site]:
    """An application with one connection for handlers: one that is lost is missed at once."""
    options = {**POOL_OF_ONE, "pool_timeout": 10.0}
    made = Site(
        request.param, engine_for(request.param, emptied_url, **options), Ledger(emptied_url)
    )
    yield made
    await made.close()


@pytest.fixture
def proxy(postgres_server: Postgres) -> Iterator[TcpProxy]:
    """What stands between the engine and Postgres, and not between the receipts and Postgres."""
    with tcp_proxy(postgres_server.port) as made:
        yield made


@pytest.fixture(params=KINDS)
async def behind(
    request: pytest.FixtureRequest, emptied_url: str, proxy: TcpProxy, postgres_server: Postgres
) -> AsyncIterator[Site]:
    """An application whose engine is behind the proxy."""
    url = emptied_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    made = Site(request.param, engine_for(request.param, url, **POOL_OF_ONE), Ledger(emptied_url))
    made.receipts = (
        AsyncSQLAlchemyReceipts(made.engine, emptied_url)
        if isinstance(made.engine, AsyncEngine)
        else SQLAlchemyReceipts(made.engine, emptied_url)
    )
    yield made
    proxy.heal()
    await made.close()


def statements(*script: str) -> Callable[[Connection], None]:
    """Return a handler that writes a row and runs these."""

    def body(connection: Connection) -> None:
        write(connection)
        for statement in script:
            connection.exec_driver_sql(statement)

    return body


async def check_recovered(site: Site) -> None:
    """The key is free, other keys are served, and each of the two is executed once."""
    app = site.on_connection(write)
    assert [(await send(app, each)).brief for each in (OTHER, Request())] == [FRESH, FRESH]
    assert [(await send(app, each)).brief for each in (OTHER, Request())] == [REPLAY, REPLAY]
    assert site.ledger.rows() == ["atomic", "atomic"]
    await check_given_back(site)


async def check_given_back(site: Site) -> None:
    """No connection is missing in the pool, and none is in the middle of a transaction."""
    assert cast("QueuePool", site.engine.pool).checkedout() == 0
    query = (
        "select state, query from pg_stat_activity"
        " where datname = current_database() and state like 'idle in transaction%'"
    )
    tries = 50
    while (busy := site.ledger.run(query)) and tries:
        await anyio.sleep(0.05)  # the server notices the end of a connection a little later
        tries -= 1
    assert not busy


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

FAILS_AT_COMMIT = (
    "create temp table late (n int unique deferrable initially deferred) on commit drop",
    "insert into late values (1), (1)",
)
LOSES_ITS_CONNECTION_AT_COMMIT = (
    "create temp table last (n int) on commit drop",
    "create function pg_temp.gone() returns trigger language plpgsql as"
    " 'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'",
    "create constraint trigger gone after insert on last deferrable initially deferred"
    " for each row execute function pg_temp.gone()",
    "insert into last values (1)",
)


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
    proxy.lose_answer(b"finish_v1")
    first = await send(app)

    assert proxy.lost
    assert first.brief == UNAVAILABLE
    assert behind.ledger.rows() == []
    await check_recovered(behind)


@pytest.mark.parametrize("name", KINDS)
async def test_a_conflict_of_transactions_at_the_finish_may_be_tried_again(
    emptied_url: str, name: str
) -> None:
    """Above READ COMMITTED the claim must not change after the handler's first statement."""
    engine = engine_for(name, emptied_url, isolation_level="SERIALIZABLE")
    site = Site(name, engine, Ledger(emptied_url))

    def body(connection: Connection) -> None:
        write(connection)
        site.ledger.run("update replayfloor.claims set lease_until = lease_until + interval '1 s'")

    answer = await send(site.on_connection(body))
    await site.close()

    assert answer.brief == UNAVAILABLE
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


# -- connections ----------------------------------------------------------------------------------


async def test_an_engine_that_cannot_connect_is_a_store_that_is_unavailable(
    behind: Site, proxy: TcpProxy
) -> None:
    proxy.cut()
    answer = await send(behind.on_connection(write))
    proxy.heal()

    assert answer.brief == UNAVAILABLE
    await check_recovered(behind)


async def test_an_engine_that_may_not_connect_is_a_store_that_is_unavailable(
    request: pytest.FixtureRequest, emptied_url: str
) -> None:
    """The server's own refusal, which asyncpg reports before SQLAlchemy is there to translate."""
    nobody = emptied_url.replace("postgres@", "nobody@")
    for name in KINDS:
        engine = engine_for(name, nobody)
        site = Site(name, engine, Ledger(emptied_url))
        site.receipts = (
            AsyncSQLAlchemyReceipts(engine, emptied_url)
            if isinstance(engine, AsyncEngine)
            else SQLAlchemyReceipts(engine, emptied_url)
        )
        assert (await send(site.on_connection(write))).brief == UNAVAILABLE
        await site.close()


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


@pytest.mark.parametrize("name", KINDS)
async def test_a_handler_that_gets_no_connection_is_told_to_come_back(
    emptied_url: str, name: str
) -> None:
    engine = engine_for(name, emptied_url, **POOL_OF_ONE, pool_timeout=0.2)
    site, held = Site(name, engine, Ledger(emptied_url)), Held()
    app = held.protect(site)
    answers: list[Answer] = []

    async def collect(request: Request) -> None:
        answers.append(await send(app, request))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(collect, Request())
            await held.gate.entered.wait()
            await collect(OTHER)
            held.gate.opened.set()
        await collect(OTHER)

    assert [each.brief for each in answers] == [UNAVAILABLE, FRESH, FRESH]
    assert int(answers[0].first(b"retry-after") or b"0") >= 1
    assert site.ledger.rows() == ["atomic", "atomic"]
    await check_given_back(site)
    await site.close()


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
    engine = engine_for(request.param, emptied_url, **POOL_OF_ONE)
    made = Site(request.param, engine, Ledger(emptied_url))
    yield made
    await made.close()


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
    engine = cast("AsyncEngine", engine_for(name, url, **POOL_OF_ONE))
    site = Site(name, engine, Ledger(emptied_url))
    site.receipts = AsyncSQLAlchemyReceipts(engine, emptied_url)

    async def handler(scope: Scope) -> None:
        await cast("AsyncConnection", claim_of(scope).connection).run_sync(write)
        proxy.hold()
        raise RuntimeError("undo this")

    with anyio.fail_after(8):
        answer = await send(site.protect(lambda _claim: None, handler))

    assert isinstance(answer.raised, RuntimeError)
    assert cast("QueuePool", engine.pool).checkedout() == 0
    assert site.ledger.rows() == []
    proxy.heal()
    await check_recovered(site)
    await site.close()
