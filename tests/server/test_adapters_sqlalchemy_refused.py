"""Handlers on SQLAlchemy that go wrong: then there is no receipt, and what they wrote is undone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, PendingRollbackError, ResourceClosedError
from sqlalchemy.orm import Session

from replayfloor.core.errors import UsageError
from server.adapters_common import (
    FRESH,
    IN_FLIGHT,
    REPLAY,
    ledger_of,
    lose_claims,
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
from server.wire import send

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[*BLOCKING, *ASYNCHRONOUS])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """An application on each kind of engine."""
    async with site_on(request.param, ledger_of(request.param, request)) as made:
        yield made


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
        lose_claims(site.ledger)
        own.add(Entry(entry="a"))
        own.commit()

    assert (await send(site.on_session(body))).brief == IN_FLIGHT
    assert site.ledger.rows() == []
