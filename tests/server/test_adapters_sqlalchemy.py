"""Handlers on SQLAlchemy: what they write and the receipt are one commit."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial

import pytest
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts
from server.adapters_common import (
    AT_ONCE,
    FRESH,
    IN_FLIGHT,
    REPLAY,
    ledger_of,
)
from server.adapters_sqlalchemy import (
    ASYNCHRONOUS,
    BLOCKING,
    Entry,
    Site,
    check_nothing_happened,
    site_on,
    write,
)
from server.wire import Request, send, send_all

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[*BLOCKING, *ASYNCHRONOUS])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """An application on each kind of engine."""
    async with site_on(request.param, ledger_of(request.param, request)) as made:
        yield made


@pytest.fixture
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """An application on a SQLite file."""
    async with site_on("sqlite", ledger_of("sqlite", request)) as made:
        yield made


# -- as intended ----------------------------------------------------------------------------------


async def test_what_a_handler_writes_and_the_receipt_are_one_commit(site: Site) -> None:
    def body(connection: Connection) -> None:
        write(connection, "a")
        write(connection, "b")
        assert site.ledger.rows() == []

    app = site.on_connection(body)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["a", "b"]


async def test_what_a_session_commits_is_committed_with_the_receipt(site: Site) -> None:
    def body(own: Session) -> None:
        for entry in ("a", "b"):
            own.add(Entry(entry=entry))
            own.commit()
            assert site.ledger.rows() == []

    app = site.on_session(body)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["a", "b"]


async def test_what_a_session_committed_is_undone_if_the_handler_fails(site: Site) -> None:
    def body(own: Session) -> None:
        own.add(Entry(entry="a"))
        own.commit()
        raise RuntimeError("afterwards")

    assert (await send(site.on_session(body))).status == 500
    await check_nothing_happened(site)


async def test_an_answer_that_frees_the_key_undoes_what_was_written(site: Site) -> None:
    def body(own: Session) -> int:
        own.add(Entry(entry="a"))
        own.commit()
        return 503

    assert (await send(site.on_session(body))).status == 503
    await check_nothing_happened(site)


async def test_a_session_that_goes_back_keeps_its_answer(site: Site) -> None:
    def body(own: Session) -> int:
        own.add(Entry(entry="a"))
        own.flush()
        own.rollback()
        return 402

    app = site.on_session(body)
    answers = [(await send(app)).brief for _ in range(2)]

    assert answers == [(402, None, False), (402, None, True)]
    assert site.ledger.rows() == []


async def test_a_savepoint_that_is_left_open_goes_with_the_commit(site: Site) -> None:
    def body(connection: Connection) -> None:
        connection.begin_nested()
        write(connection)

    app = site.on_connection(body)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["atomic"]


async def test_of_many_duplicates_at_once_one_is_executed(site: Site) -> None:
    def body(own: Session) -> None:
        own.add(Entry(entry="atomic"))
        own.commit()

    app = site.on_session(body)
    answers = await send_all([partial(send, app)] * AT_ONCE)

    assert sum(each.brief == FRESH for each in answers) == 1
    assert {each.brief for each in answers} <= {FRESH, IN_FLIGHT, REPLAY}
    assert (await send(app)).brief == REPLAY
    assert site.ledger.rows() == ["atomic"]


async def test_many_keys_at_once_are_all_executed_once(site: Site) -> None:
    app = site.on_connection(write)
    requests = [Request(key=b'"k-%d"' % (n % AT_ONCE)) for n in range(2 * AT_ONCE)]
    answers = await send_all([partial(send, app, request) for request in requests])

    assert {each.status for each in answers} <= {201, 409}
    assert sum(each.brief == FRESH for each in answers) == AT_ONCE
    assert len(site.ledger.rows()) == AT_ONCE


# -- SQLite ---------------------------------------------------------------------------------------


async def test_a_transaction_that_sqlite_ended_itself_is_not_gone_on_with(sqlite: Site) -> None:
    """`or rollback` (as a full disk does) ends it; the driver would begin another one."""

    def body(connection: Connection) -> None:
        connection.execute(text("create table once (n integer primary key)"))
        connection.execute(text("insert into once values (1)"))
        write(connection)
        with contextlib.suppress(IntegrityError):
            connection.execute(text("insert or rollback into once values (1)"))

    answer = await send(sqlite.on_connection(body))

    assert isinstance(answer.raised, UsageError)
    await check_nothing_happened(sqlite)


async def test_handlers_that_read_first_do_not_fail_each_other(sqlite: Site) -> None:
    """A lock for reading does not get any further once another has written."""

    def body(own: Session) -> None:
        count = own.query(Entry).count()
        own.add(Entry(entry=f"after {count}"))
        own.commit()

    app = sqlite.on_session(body)
    requests = [Request(key=b'"k-%d"' % n) for n in range(AT_ONCE)]
    answers = await send_all([partial(send, app, request) for request in requests])

    assert {each.brief for each in answers} == {FRESH}
    assert sorted(sqlite.ledger.rows()) == sorted(f"after {n}" for n in range(AT_ONCE))


async def test_an_engine_that_begins_by_itself_works_too(request: pytest.FixtureRequest) -> None:
    """As SQLAlchemy's manual has it for savepoints in SQLite."""
    ledger = ledger_of("sqlite", request)
    engine = create_engine(ledger.url)

    @event.listens_for(engine, "connect")
    def connected(connection: object, _record: object) -> None:
        setattr(connection, "isolation_level", None)  # noqa: B010 - of an untyped driver

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    site = Site("sqlite", engine, ledger, SQLAlchemyReceipts(engine))
    app = site.on_connection(write)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert ledger.rows() == ["atomic"]
    await site.close()


# -- how the engine is made -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BLOCKING, *ASYNCHRONOUS])
async def test_an_engine_that_commits_each_statement_is_refused(
    request: pytest.FixtureRequest, name: str
) -> None:
    ledger = ledger_of(name, request)
    async with site_on(name, ledger, isolation_level="AUTOCOMMIT") as automatic:
        answer = await send(automatic.on_connection(write))

    assert answer.status == 500
    assert isinstance(answer.raised, ConfigurationError)
    assert "isolation_level" in str(answer.raised)
    async with site_on(name, ledger) as site:
        await check_nothing_happened(site)
