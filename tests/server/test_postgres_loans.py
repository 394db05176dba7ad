"""What a handler cannot do with the connection of its transaction: end it, or keep it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from replayfloor.core.claims import Finish, InFlight
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.loans import (
    ENDING,
    INSERT,
    OPERATION_S,
    as_psycopg,
    empty_ledger,
    entries,
    migrated_database,
)
from support.services import Services

if TYPE_CHECKING:
    from psycopg.abc import QueryNoTemplate  # from 3.3 on


@pytest.fixture(scope="module")
def migrated(services: Services) -> Iterator[str]:
    """A migrated database with a ledger."""
    with migrated_database(services, "loans") as url:
        yield url


@pytest.fixture
def url(migrated: str) -> str:
    """The database, with the ledger empty."""
    return empty_ledger(migrated)


@pytest.fixture
def blocking(url: str) -> Iterator[PostgresReceipts]:
    """A blocking store."""
    store = PostgresReceipts(url, handler_connections=1, operation_s=OPERATION_S)
    yield store
    store.close()


@pytest.mark.parametrize("query", ENDING, ids=repr)
def test_no_cursor_ends_the_transaction(
    url: str, blocking: PostgresReceipts, query: QueryNoTemplate
) -> None:
    transaction = blocking.begin()
    connection = as_psycopg(transaction.connection)
    connection.execute(INSERT)
    cursor, named = connection.cursor(), connection.cursor("named")
    ways: list[Callable[[], object]] = [
        lambda: connection.execute(query),
        lambda: cursor.execute(query),
        lambda: cursor.executemany(query, [()]),
        lambda: list(cursor.stream(query)),
        lambda: cursor.copy(query).__enter__(),
        lambda: cursor.connection.execute(query),
        lambda: named.execute(query),
    ]
    for way in ways:
        with pytest.raises(UsageError, match="ended by the middleware"):
            way()

    named.close()
    transaction.rollback()
    assert entries(url) == 0


def test_a_view_does_what_psycopg_does(url: str, blocking: PostgresReceipts) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    connection = as_psycopg(transaction.connection)
    connection.row_factory = dict_row
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany("insert into ledger values (%s)", [(1,), (2,)])
        with cursor.copy("copy ledger from stdin") as copy:
            copy.write_row((3,))
        cursor.execute("select entry from ledger order by entry")
        assert cursor.fetchone() == {"entry": 1}
        assert list(cursor) == [{"entry": 2}, {"entry": 3}]
        assert list(cursor.stream("select 4 as entry")) == [{"entry": 4}]
    with connection.cursor("named") as named:
        named.execute("select entry from ledger order by entry")
        assert list(named) == [{"entry": 1}, {"entry": 2}, {"entry": 3}]
    with pytest.raises(psycopg.ProgrammingError, match="forbidden within a Transaction"):
        connection.commit()

    assert transaction.commit(Finish(id_, fence, receipt()))
    assert entries(url) == 3


def test_one_handlers_row_factory_is_not_the_next_ones(blocking: PostgresReceipts) -> None:
    first = blocking.begin()
    as_psycopg(first.connection).row_factory = dict_row
    first.rollback()
    second = blocking.begin()

    assert second.connection.execute("select 1").fetchone() == (1,)
    second.rollback()


def test_a_cursor_of_another_class_is_not_made_on_the_view(blocking: PostgresReceipts) -> None:
    transaction = blocking.begin()
    cursor = psycopg.ClientCursor(as_psycopg(transaction.connection))

    with pytest.raises(UsageError, match=r"connection\.cursor"):
        cursor.execute("commit")
    transaction.rollback()


def test_after_the_end_neither_the_view_nor_its_cursors_reach_the_server(
    url: str, blocking: PostgresReceipts
) -> None:
    first = blocking.begin()
    connection = as_psycopg(first.connection)
    connection.row_factory = dict_row
    cursor, named = connection.cursor(), connection.cursor("named")
    named.execute("select 1 as entry")
    read = connection.execute("select 1 as entry")
    first.rollback()
    second = blocking.begin()  # on the same connection: there is only one
    ways: list[Callable[[], object]] = [
        lambda: connection.execute(INSERT),
        lambda: connection.cursor(),
        lambda: connection.transaction(),
        lambda: cursor.execute(INSERT),
        lambda: cursor.executemany(INSERT, [()]),
        lambda: cursor.copy("copy ledger from stdin"),
        lambda: named.fetchone(),
        lambda: list(named),
    ]
    for way in ways:
        with pytest.raises(UsageError, match="has ended"):
            way()
    named.close()

    assert read.fetchall() == [{"entry": 1}]  # that was here already
    second.connection.execute("select 1")  # which fails if one of them broke the transaction
    second.rollback()
    assert entries(url) == 0


def test_a_statement_left_running_does_not_hold_up_the_end(
    url: str, blocking: PostgresReceipts
) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    connection = as_psycopg(transaction.connection)
    connection.execute(INSERT)
    ended: list[Exception] = []

    def left_behind() -> None:
        try:
            connection.execute("select pg_sleep(30)")
        except psycopg.Error as error:
            ended.append(error)

    thread = threading.Thread(target=left_behind)
    thread.start()
    _wait_until_it_sleeps(url)
    began = monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(id_, fence, receipt()))
    thread.join(5)

    assert monotonic() - began < 3
    assert raised.value.performed is False
    assert len(ended) == 1
    assert entries(url) == 0
    assert isinstance(blocking.claim(claim(id_, new_fence())), InFlight)
    blocking.begin().rollback()  # there is a connection again


def test_a_result_read_half_way_does_not_hold_up_the_end(blocking: PostgresReceipts) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    cursor = as_psycopg(transaction.connection).cursor(row_factory=dict_row)
    rows = cursor.stream("select generate_series(1, 9) as entry")
    assert next(rows) == {"entry": 1}

    began = monotonic()
    with pytest.raises(StoreUnavailable):
        transaction.commit(Finish(id_, fence, receipt()))
    assert monotonic() - began < 3
    assert isinstance(blocking.claim(claim(id_, new_fence())), InFlight)
    blocking.begin().rollback()


def _wait_until_it_sleeps(url: str) -> None:
    query = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    with psycopg.connect(url, autocommit=True) as database:
        until = monotonic() + 5
        while database.execute(query).fetchone() == (0,):
            assert monotonic() < until


def test_a_connection_that_the_handler_closed_is_not_said_to_have_committed(
    url: str, blocking: PostgresReceipts
) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    connection = as_psycopg(transaction.connection)
    connection.execute(INSERT)
    connection.close()

    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(id_, fence, receipt()))
    assert raised.value.performed is False
    assert entries(url) == 0


def test_a_commit_that_was_not_sent_is_not_reported(
    blocking: PostgresReceipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg says nothing if the connection has been closed by then."""
    transaction = blocking.begin()
    connection = transaction.lend()

    def closed_meanwhile(_deadline: float) -> bool:
        connection.close()
        return True

    monkeypatch.setattr(transaction, "_is_quiet", closed_meanwhile)
    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(new_id(), new_fence(), receipt()))
    assert raised.value.performed is False


def test_a_commit_of_which_nothing_was_heard_is_not_reported(
    blocking: PostgresReceipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg leaves a block on a connection that was closed in the meantime without a word."""
    transaction = blocking.begin()
    monkeypatch.setattr(transaction._block, "__exit__", lambda *_error: None)
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))

    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(id_, fence, receipt()))
    assert raised.value.performed is None
