"""The schema of the journal in Postgres: who makes it, when, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from replayfloor.client.journal import PostgresJournal, open_journal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    PruneOperations,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.testing.journal_contract import ENTRY, LATER_NS, PLACE
from replayfloor.testing.journal_subject import ONE, answered
from replayfloor.testing.journal_upkeep_contract import SETTLE
from support.services import Services

TOGETHER = 8
ROLE = "journal_user"
ADVICE = "run `replayfloor client migrate URL` with a role that may"
TIMEOUT_S = 60.0

REFUSE_DDL = """
create function refuse_ddl() returns event_trigger language plpgsql as $$
begin raise exception 'DDL at request time: %', tg_tag; end $$;
create event trigger refuse_ddl on ddl_command_start execute function refuse_ddl();
"""
GRANT = """
grant usage on schema replayfloor_client to journal_user;
grant select, insert, update, delete on all tables in schema replayfloor_client to journal_user;
"""


def _execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(statements.encode())


def _begin(url: str) -> bool:
    """Begin an operation; return whether it stood before."""
    with closing(PostgresJournal(url)) as journal:
        return journal.begin(BeginOperation(ENTRY)).resumed


@pytest.fixture
def role_url(postgres_url: str) -> Iterator[str]:
    """The same database for a role that may connect, and no more."""
    _execute(postgres_url, f"create role {ROLE} login")
    parts = urlsplit(postgres_url)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{ROLE}@{host}"))
    _execute(postgres_url, f"drop owned by {ROLE}; drop role {ROLE}")


@contextmanager
def _refused(match: str) -> Iterator[None]:
    with pytest.raises(ConfigurationError, match=match):
        yield


# -- making it ------------------------------------------------------------------------------------


def test_the_first_use_makes_the_schema(postgres_url: str) -> None:
    PostgresJournal(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as database:
        query = "select to_regnamespace('replayfloor_client') is null"
        assert database.execute(query).fetchone() == (True,)

    assert not _begin(postgres_url)
    assert _begin(postgres_url)


def test_it_is_made_once(postgres_url: str) -> None:
    assert create_schema(postgres_url)
    assert not create_schema(postgres_url)


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_processes_that_make_it_at_the_same_time_make_it_once(
    isolation: str, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as database:
        name = sql.Identifier(database.info.dbname)
        setting = sql.SQL("alter database {} set default_transaction_isolation = {}")
        database.execute(setting.format(name, sql.Literal(isolation)))
    # Connections of their own, and nothing shared: to the server, threads are processes.
    with ThreadPoolExecutor(TOGETHER) as threads:
        resumed = list(threads.map(_begin, [postgres_url] * TOGETHER))

    assert resumed.count(False) == 1


def test_no_later_operation_runs_ddl(postgres_url: str) -> None:
    create_schema(postgres_url)
    _execute(postgres_url, REFUSE_DDL)

    with closing(PostgresJournal(postgres_url)) as journal:
        journal.begin(BeginOperation(ENTRY))
        journal.start_attempt(StartAttempt(*PLACE, LATER_NS, 0, ONE, 1.0))
        journal.renew_lease(RenewLease(*PLACE, LATER_NS, ONE, 1.0))
        journal.release_lease(ReleaseLease(*PLACE, ONE))
        journal.end_attempt(answered())
        journal.close_operation(CloseOperation(*PLACE, LATER_NS))
        journal.settle(SETTLE)
        journal.prune(PruneOperations(None, LATER_NS))
        assert (journal.pending(), journal.count_pending()) == ((), ())
        assert journal.history() == (journal.read(ReadOperation(*PLACE)),)


# -- roles ----------------------------------------------------------------------------------------


def test_a_role_that_may_not_make_it_is_told_what_to_do(role_url: str) -> None:
    with _refused(ADVICE):
        _begin(role_url)
    with _refused(ADVICE):
        create_schema(role_url)


def test_a_role_that_may_use_it_needs_no_more(role_url: str, postgres_url: str) -> None:
    create_schema(postgres_url)
    with _refused("grant usage on schema replayfloor_client and select, insert, update, delete"):
        _begin(role_url)

    _execute(postgres_url, GRANT)

    assert not _begin(role_url)
    assert not create_schema(role_url)


def test_a_role_may_fill_a_schema_that_somebody_made_for_it(
    role_url: str, postgres_url: str
) -> None:
    _execute(postgres_url, f"create schema replayfloor_client authorization {ROLE}")

    assert not _begin(role_url)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "theirs",
    [
        "create table replayfloor_client.theirs ()",
        "create table replayfloor_client.journal_version ()",
        "create table replayfloor_client.journal_version (version text)",
        "create sequence replayfloor_client.journal_version",
        "create type replayfloor_client.journal_version as (version integer)",
    ],
)
def test_a_schema_of_somebody_else_is_refused_and_left_as_it_is(
    theirs: str, postgres_url: str
) -> None:
    _execute(postgres_url, f"create schema replayfloor_client; {theirs}")

    with _refused("not a journal of replayfloor"):
        _begin(postgres_url)
    with _refused("not a journal of replayfloor"):
        create_schema(postgres_url)
    with psycopg.connect(postgres_url) as database:
        query = """
            select count(*) from pg_catalog.pg_class
            where relnamespace = 'replayfloor_client'::regnamespace
        """
        assert database.execute(query).fetchone() == (1,)


@pytest.mark.parametrize(
    ("version", "advice"), [(0, "rename the schema"), (2, "use the release that made it")]
)
def test_a_schema_of_another_release_is_refused(
    version: int, advice: str, postgres_url: str
) -> None:
    create_schema(postgres_url)
    _execute(postgres_url, f"update replayfloor_client.journal_version set version = {version}")

    for use in (_begin, create_schema):
        with _refused(f"schema version {version}, this release knows 1: .*{advice}"):
            use(postgres_url)


def test_a_database_that_cannot_keep_every_text_is_refused(services: Services) -> None:
    admin = services.postgres.url
    _execute(admin, "create database latin encoding latin1 template template0")
    try:
        with _refused("encoding is UTF8, not LATIN1"):
            _begin(services.postgres.url_of("latin"))
    finally:
        services.postgres.drop("latin")


def test_a_client_encoding_in_the_url_changes_nothing(postgres_url: str) -> None:
    with closing(PostgresJournal(postgres_url + "?client_encoding=latin1")) as journal:
        journal.begin(BeginOperation(ENTRY))
        entry = journal.settle(replace(SETTLE, note="日本"))

    assert entry.note == "日本"


@pytest.mark.parametrize("make", [PostgresJournal, open_journal, create_schema])
def test_a_url_that_is_none_is_refused_without_repeating_its_password(
    make: Callable[[str], object],
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make("postgresql://user:hunter2%@host/database")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("connections", "operation_s"), [(0, 1.0), (1, 0.0)])
def test_options_that_cannot_be_met_are_refused(connections: int, operation_s: float) -> None:
    with _refused("must be positive"):
        PostgresJournal(
            "postgresql://host/database", pool_connections=connections, operation_s=operation_s
        )


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_journal_is_opened_from_its_url(scheme: str, postgres_url: str) -> None:
    journal = open_journal(postgres_url.replace("postgresql", scheme, 1))
    assert isinstance(journal, PostgresJournal)
    journal.begin(BeginOperation(ENTRY))
    journal.close()

    assert _begin(postgres_url)
    with pytest.raises(StoreUnavailable, match="closed"):
        journal.pending()


# -- the driver -----------------------------------------------------------------------------------

WITHOUT_DRIVER = """
import sys
sys.modules.update(dict.fromkeys(["psycopg", "psycopg_pool"]))
from replayfloor.client import SQLiteJournal
from replayfloor.client.journal import open_journal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.core.errors import ConfigurationError
for make in (open_journal, create_schema):
    try:
        make("postgresql://host/database")
    except ConfigurationError as error:
        print(error)
"""
NOT_IMPORTED = """
import sys
import replayfloor.client
from replayfloor.client.journal import PostgresJournal, postgres_schema
print([name for name in sys.modules if name.startswith("psycopg")])
"""


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return done.stdout


def test_without_the_driver_it_is_said_how_to_install_it() -> None:
    told = _python(WITHOUT_DRIVER).splitlines()

    assert len(told) == 2
    assert all("pip install 'replayfloor[journal-postgres]'" in line for line in told)


def test_the_client_does_not_import_the_driver() -> None:
    assert _python(NOT_IMPORTED) == "[]\n"
