"""What a test leaves behind in its database does not reach the next one, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from replayfloor.server.stores.migrate import migrate
from support.services import Postgres, Services
from support.services.databases import Databases

NEW = "select count(*) from pg_class where oid >= 16384 and relname !~ '^pg_toast'"
ROLE = "leaver"


@pytest.fixture
def server(services: Services) -> Iterator[Postgres]:
    """The server, with a role that things can be given to."""
    run(services.postgres.url, f"create role {ROLE} login")
    yield services.postgres
    services.postgres.restore()
    run(services.postgres.url, f"drop role {ROLE}")


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements, and return the rows of the last one."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as database:
        cursor = database.cursor()
        for statement in statements:
            cursor.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


CLEANED = {
    "tables": "create table t (a serial primary key); insert into t default values",
    "schemas": "create schema s; create table s.t (a int); create function s.f() returns int"
    " language sql return 1",
    "types": "create type e as enum ('a'); create domain d as int",
    "public itself": "drop schema public cascade",
    "grants on public": f"grant all on schema public to {ROLE}",
    "settings": "alter database {name} set default_transaction_read_only = on",
    "settings of a role": f"alter role {ROLE} in database {{name}} set work_mem = '1MB'",
    "a search path": "alter database {name} set search_path = s",
    "large objects": "select lo_from_bytea(0, 'x')",
    "a trigger that refuses DDL": "create function refuse() returns event_trigger language plpgsql"
    " as $$ begin raise exception 'no'; end $$;"
    " create event trigger refuse on ddl_command_start execute function refuse()",
}
"""Left behind, and gone although the database is used again."""

DROPPED = {
    "a table of the catalog's schema": "create table information_schema.t (a int)",
    "default privileges": f"alter default privileges grant select on tables to {ROLE}",
    "a grant on what the system has": "revoke execute on function pg_catalog.now() from public",
    "a cast": "create cast (text as int) with inout",
    "a publication": "create publication p",
    "a limit": "alter database {name} connection limit 3",
    "a grant on the database": f"grant create on database {{name}} to {ROLE}",
    "a comment of the system's": "comment on function pg_catalog.now() is 'x'",
}
"""Left behind, and the database goes with it."""


@pytest.mark.parametrize("what", [*CLEANED, *DROPPED])
def test_what_is_left_behind_is_gone(server: Postgres, what: str) -> None:
    databases = Databases(server, "emptied")
    url = databases.take()
    name = url.rpartition("/")[2]
    looks = run(url, "select nspname, nspacl::text, nspowner from pg_namespace")

    run(url, (CLEANED | DROPPED)[what].format(name=name))
    databases.give_back(url)

    again = databases.take()
    assert (again == url) == (what in CLEANED)
    assert run(again, NEW) == [(0,)]
    assert run(again, "select nspname, nspacl::text, nspowner from pg_namespace") == looks
    assert run(again, "show default_transaction_read_only") == [("off",)]
    assert run(again, "select count(*) from pg_db_role_setting where setdatabase <> 0") == [(0,)]
    assert run(again, "select count(*) from pg_largeobject_metadata") == [(0,)]
    server.drop(again.rpartition("/")[2])


def test_a_client_that_a_test_forgot_is_disconnected(server: Postgres) -> None:
    databases = Databases(server, "forgotten")
    url = databases.take()
    with psycopg.connect(url) as forgotten:
        forgotten.execute("create table t (a int)")  # a transaction that stays open
        databases.give_back(url)

        assert databases.take() == url
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")
        forgotten.close()
    server.drop(url.rpartition("/")[2])


def test_after_a_crash_of_the_server_it_is_as_new_too(server: Postgres) -> None:
    databases = Databases(server, "crashed")
    url = databases.take()
    run(url, "create table t (a int)")
    server.crash()
    server.restore()
    databases.give_back(url)

    again = databases.take()
    assert run(again, NEW) == [(0,)]
    server.drop(again.rpartition("/")[2])


def test_a_database_that_is_gone_is_replaced(server: Postgres) -> None:
    databases = Databases(server, "gone")
    url = databases.take()
    server.drop(url.rpartition("/")[2])
    databases.give_back(url)

    again = databases.take()
    assert run(again, "select 1") == [(1,)]
    server.drop(again.rpartition("/")[2])


LEFT = {
    "rows": ("insert into ledger values (1)", True),
    "fewer rows": ("delete from ledger", True),
    "other rows": ("update ledger set entry = 7", True),
    "a number that is used": ("select nextval('numbers')", True),
    "a table": ("create table mine (a int)", True),
    "a column": ("alter table ledger add column mine int", False),
    "a table less": ("drop table ledger", False),
    "a function": (
        "create or replace function replayfloor.mine() returns int language sql return 1",
        False,
    ),
    "an index": ("create index on ledger (entry)", False),
    "a truncated table": ("truncate ledger", False),
}


def prepare(url: str) -> None:
    """Make our schema, and a table with a row of its own."""
    migrate(url)
    run(url, "create table ledger (entry int)", "insert into ledger values (42)")
    run(url, "create sequence numbers")


@pytest.fixture(scope="module")
def prepared(services: Services) -> Databases:
    """Databases that have our schema."""
    return Databases(services.postgres, "prepared", prepare)


@pytest.mark.parametrize("what", LEFT)
def test_a_prepared_one_is_again_as_it_was(prepared: Databases, what: str) -> None:
    statement, used_again = LEFT[what]
    url = prepared.take()
    run(url, statement)
    prepared.give_back(url)

    again = prepared.take()
    assert (again == url) == used_again
    assert run(again, "select * from ledger") == [(42,)]
    assert run(again, "select nextval('numbers')") == [(1,)]
    assert run(again, "select to_regclass('mine'), to_regproc('replayfloor.mine')") == [(None,) * 2]
    assert migrate(again).applied == ()
    prepared.give_back(again)
