"""Which statements end a transaction is read as the databases read it; they are asked, too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from replayfloor.core.errors import UsageError
from replayfloor.server.stores.statements import refuse_postgres_control, refuse_sqlite_control
from support.services import Services

ENDING = [
    "commit",
    "; ;\n-- done\nCommit",
    "select 1; commit",
    "select 1; end; select 2",
    "abort",
    "rollback work",
    "rollback and chain",
    "commit; start /* it */ transaction",
    "/* /* one */ in another */ rollback",
    "select ';'; abort",
    "select $$;$$; commit",
    "select $a$ $$ ; $a$; commit",
    r"select e'\';'; commit",
    r"select '\'; commit",
    "select date'2026-01-01'; commit",
    'select 1 as "a;b"; commit',
    "select 1 -- ;\n; commit",
    "select '''; '; commit",
]
HARMLESS = [
    "select '; commit'",
    r"select e'\'; commit'",
    "select $a$; $$ commit $a$",
    "select 1 /* ; commit */",
    "select 1 /* /* ; */ ; commit */",
    "select 1 -- ; commit",
    'select 1 as "; commit"',
    "with commit as (select 1) select 1 from commit",
    "savepoint s; rollback to s; release s",
    "savepoint s; rollback work to savepoint s",
    "select 1 as endless; ; select 2",
]
SQLITE_ENDING = [
    "commit",
    "; -- done\n END",
    "/* /* */ commit",
    "\ufeffrollback",
    "begin immediate",
]
SQLITE_HARMLESS = [
    "select 1 as [; commit]",
    "select '; commit'",
    "select 1 /* ; commit */",
    "rollback to s",
]


@pytest.fixture(scope="module")
def database(services: Services) -> Iterator[psycopg.Connection]:
    """A connection of the test's own."""
    with psycopg.connect(services.postgres.url) as database:
        yield database


@pytest.mark.parametrize("query", ENDING)
def test_what_ends_a_transaction_is_refused(database: psycopg.Connection, query: str) -> None:
    with pytest.raises(UsageError, match="ended by the middleware"):
        refuse_postgres_control(query)

    assert not _is_in_one_transaction(database, query)


@pytest.mark.parametrize("query", HARMLESS)
def test_what_only_looks_like_it_is_let_through(database: psycopg.Connection, query: str) -> None:
    refuse_postgres_control(query)

    assert _is_in_one_transaction(database, query)


def _is_in_one_transaction(database: psycopg.Connection, query: str) -> bool:
    """Ask the server whether what comes before and after the query is in one transaction."""
    database.rollback()
    before = database.execute("select pg_current_xact_id()").fetchone()
    database.execute(query.encode())
    after = database.execute("select pg_current_xact_id()").fetchone()
    database.rollback()
    return before == after


@pytest.mark.parametrize("query", SQLITE_ENDING)
def test_what_ends_a_transaction_in_sqlite_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="ended by the middleware"):
        refuse_sqlite_control(query)


@pytest.mark.parametrize("query", SQLITE_HARMLESS)
def test_what_only_looks_like_it_in_sqlite_is_let_through(query: str) -> None:
    refuse_sqlite_control(query)

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for statement in ("begin", "savepoint s", query):
            database.execute(statement)
        assert database.in_transaction
