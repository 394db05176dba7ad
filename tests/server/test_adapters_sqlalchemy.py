"""Handlers on SQLAlchemy: what they write and the receipt are one commit, whatever they do."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import IntegrityError, PendingRollbackError, ResourceClosedError
from sqlalchemy.orm import Session

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.problem import ProblemKind
from server.adapters_sqlalchemy import ASYNCHRONOUS, BLOCKING, Entry, Site, engine_for, write
from server.backends import Ledger, sqlite_url
from server.wire import Request, send, send_all

pytestmark = pytest.mark.anyio

FRESH = (201, None, False)
REPLAY = (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
AT_ONCE = 16


def ledger_of(name: str, request: pytest.FixtureRequest) -> Ledger:
    """Return an empty ledger in the database of a kind of site."""
    if name != "sqlite":
        return Ledger(request.getfixturevalue("emptied_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    ledger = Ledger(sqlite_url(folder / "receipts.db"))
    ledger.create()
    return ledger


@pytest.fixture(params=[*BLOCKING, *ASYNCHRONOUS])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """An application on each kind of engine."""
    ledger = ledger_of(request.param, request)
    made = Site(request.param, engine_for(request.param, ledger.url), ledger)
    yield made
    await made.close()


@pytest.fixture
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """An application on a SQLite file."""
    ledger = ledger_of("sqlite", request)
    made = Site("sqlite", engine_for("sqlite", ledger.url), ledger)
    yield made
    await made.close()


async def check_nothing_happened(site: Site) -> None:
    """Nothing was written, and the key is free: the next request is executed."""
    assert site.ledger.rows() == []
    assert (await send(site.on_connection(write))).brief == FRESH
    assert site.ledger.rows() == ["atomic"]


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


# -- what a handler must not do -------------------------------------------------------------------


def commits(connection: Connection) -> None:
    connection.commit()


def commits_in_words(connection: Connection) -> None:
    connection.execute(text("/* by hand */ COMMIT"))


def commits_past_the_compiler(connection: Connection) -> None:
    connection.exec_driver_sql("commit; select 1")


def begins_anew(connection: Connection) -> None:
    connection.rollback()
    write(connection, "anew")
    connection.commit()


COMMITS = [commits, commits_in_words, commits_past_the_compiler, begins_anew]


@pytest.mark.parametrize("commit", COMMITS)
async def test_a_handler_cannot_commit_without_the_receipt(
    site: Site, commit: Callable[[Connection], None]
) -> None:
    refused: list[UsageError] = []

    def body(connection: Connection) -> None:
        write(connection)
        try:
            commit(connection)
        except UsageError as error:
            refused.append(error)
            raise

    answer = await send(site.on_connection(body))

    assert (answer.status, answer.raised) == (500, refused[0])
    await check_nothing_happened(site)


@pytest.mark.parametrize("commit", COMMITS)
async def test_a_handler_that_failed_to_commit_and_says_it_did_is_not_believed_halfway(
    site: Site, commit: Callable[[Connection], None]
) -> None:
    """Write and receipt come together, or neither does."""

    def body(connection: Connection) -> None:
        write(connection)
        with contextlib.suppress(UsageError):
            commit(connection)

    app = site.on_connection(body)
    first = await send(app)

    written = site.ledger.rows() == ["atomic"]
    assert (first.status == 201) == written
    if written:
        assert (await send(app)).brief == REPLAY
    else:
        await check_nothing_happened(site)


async def test_the_connection_of_a_session_cannot_commit_either(site: Site) -> None:
    def body(own: Session) -> None:
        own.add(Entry(entry="a"))
        own.flush()
        own.connection().commit()

    assert (await send(site.on_session(body))).status == 500
    await check_nothing_happened(site)


def rolls_back(connection: Connection) -> None:
    connection.rollback()


def closes(connection: Connection) -> None:
    connection.close()


def ends_the_root(connection: Connection) -> None:
    transaction = connection.get_transaction()
    assert transaction is not None
    transaction.close()


@pytest.mark.parametrize("end", [rolls_back, closes, ends_the_root])
async def test_a_handler_that_ends_the_transaction_has_no_receipt(
    site: Site, end: Callable[[Connection], None]
) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        end(connection)

    answer = await send(site.on_connection(body))

    assert answer.status == 500
    assert isinstance(answer.raised, UsageError)
    await check_nothing_happened(site)


@pytest.mark.parametrize("options", [{}, {"isolation_level": "AUTOCOMMIT"}], ids=str)
async def test_after_its_own_rollback_a_handler_can_write_no_more(
    site: Site, options: dict[str, str]
) -> None:
    def body(connection: Connection) -> None:
        connection.rollback()
        connection.execution_options(**options)
        with pytest.raises(UsageError):
            write(connection)

    answer = await send(site.on_connection(body))

    assert isinstance(answer.raised, UsageError)
    await check_nothing_happened(site)


async def test_a_connection_that_is_kept_writes_nothing_after_the_answer(site: Site) -> None:
    kept: list[Connection] = []

    def body(connection: Connection) -> None:
        write(connection)
        kept.append(connection)

    await send(site.on_connection(body))
    with pytest.raises(ResourceClosedError):
        write(kept[0], "late")

    assert site.ledger.rows() == ["atomic"]


# -- what the database refuses --------------------------------------------------------------------


def breaks(connection: Connection | Session) -> None:
    """Violate a constraint, and go on as if nothing had been."""
    connection.execute(text("create temp table once (n integer primary key)"))
    connection.execute(text("insert into once values (1)"))
    with pytest.raises(IntegrityError):
        connection.execute(text("insert into once values (1)"))


async def test_a_transaction_that_an_error_broke_has_no_receipt(site: Site) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        breaks(connection)

    app = site.on_connection(body)
    first = await send(app)

    if site.is_sqlite:  # where a statement that failed leaves the others alone
        assert (first.brief, (await send(app)).brief) == (FRESH, REPLAY)
        assert site.ledger.rows() == ["atomic"]
    else:
        assert first.status == 500
        await check_nothing_happened(site)


async def test_a_session_whose_flush_failed_does_not_commit(site: Site) -> None:
    def body(own: Session) -> None:
        own.execute(text("create unique index only_one on ledger (entry)"))
        own.add(Entry(entry="a"))
        own.flush()
        own.expunge_all()
        own.add(Entry(entry="a"))
        with pytest.raises(IntegrityError):
            own.flush()
        own.commit()

    answer = await send(site.on_session(body))

    assert answer.status == 500
    assert isinstance(answer.raised, PendingRollbackError)
    await check_nothing_happened(site)


async def test_an_error_inside_of_a_savepoint_is_the_handlers_own(site: Site) -> None:
    def body(connection: Connection) -> None:
        write(connection)
        with contextlib.suppress(RuntimeError), connection.begin_nested():
            write(connection, "undone")
            raise RuntimeError("undo")

    app = site.on_connection(body)

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["atomic"]


async def test_a_claim_that_was_lost_meanwhile_undoes_what_was_written(site: Site) -> None:
    def body(own: Session) -> None:
        site.ledger.run(
            "update replayfloor_claims set fence = randomblob(16)"
            if site.is_sqlite
            else "update replayfloor.claims set fence = gen_random_uuid()"
        )
        own.add(Entry(entry="a"))
        own.commit()

    assert (await send(site.on_session(body))).brief == IN_FLIGHT
    assert site.ledger.rows() == []


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
    engine = engine_for("sqlite", ledger.url)

    @event.listens_for(engine, "connect")
    def connected(connection: object, _record: object) -> None:
        setattr(connection, "isolation_level", None)  # noqa: B010 - of an untyped driver

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    site = Site("sqlite", engine, ledger)
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
    automatic = Site(name, engine_for(name, ledger.url, isolation_level="AUTOCOMMIT"), ledger)
    answer = await send(automatic.on_connection(write))
    await automatic.close()
    site = Site(name, engine_for(name, ledger.url), ledger)

    assert answer.status == 500
    assert isinstance(answer.raised, ConfigurationError)
    assert "isolation_level" in str(answer.raised)
    await check_nothing_happened(site)
    await site.close()
