"""What a journal in Postgres has told is on disk: kill -9 of the server loses none of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count

import psycopg
import pytest
from psycopg import sql

from replayfloor.client.journal import PostgresJournal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    JournalEntry,
    ReadOperation,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.testing.journal_contract import ENTRY, LATER_NS, PLACE
from replayfloor.testing.journal_subject import answered
from support.services import Postgres

WRITERS = 4
ENTRIES_MIN = 40
OPERATION_S = 2.0


@pytest.fixture
def late_commits(postgres_url: str, postgres_server: Postgres) -> Iterator[str]:
    """A database whose commits are not waited for, on a server that takes its time.

    Such a commit is on disk when the WAL writer gets to it, which is in 0.2 s by default, and here
    later than any test.
    """
    with psycopg.connect(postgres_url, autocommit=True) as database:
        name = sql.Identifier(database.info.dbname)
        database.execute(sql.SQL("alter database {} set synchronous_commit = off").format(name))
        database.execute("alter system set wal_writer_delay = '10s'")
        database.execute("select pg_reload_conf()")
    create_schema(postgres_url)
    yield postgres_url
    postgres_server.restore()
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        database.execute("alter system reset wal_writer_delay")
        database.execute("select pg_reload_conf()")


def _entry(name: str) -> JournalEntry:
    return replace(ENTRY, operation_id=name, key=f"key of {name}")


def _crash(server: Postgres) -> None:
    server.crash()
    server.start()


def test_what_was_begun_survives_the_death_of_the_server_under_load(
    postgres_url: str, postgres_server: Postgres
) -> None:
    told: list[str] = []
    with closing(PostgresJournal(postgres_url, operation_s=OPERATION_S)) as journal:

        def write(writer: int) -> None:
            for number in count():
                try:
                    journal.begin(BeginOperation(_entry(f"{writer}-{number}")))
                except StoreUnavailable:
                    return
                told.append(f"{writer}-{number}")

        with ThreadPoolExecutor(WRITERS) as threads:
            writers = [threads.submit(write, number) for number in range(WRITERS)]
            while len(told) < ENTRIES_MIN and not any(each.done() for each in writers):
                threading.Event().wait(0.01)
            postgres_server.crash()
        for writer in writers:
            writer.result()
        postgres_server.start()

        kept = {entry.operation_id for entry in journal.history()}
    assert len(told) >= ENTRIES_MIN
    assert set(told) <= kept


def test_an_entry_is_on_disk_although_the_database_does_not_wait_for_commits(
    late_commits: str, postgres_server: Postgres
) -> None:
    with closing(PostgresJournal(late_commits)) as journal:
        begun = journal.begin(BeginOperation(ENTRY)).entry
        _crash(postgres_server)

        assert journal.read(ReadOperation(*PLACE)) == begun


CHANGES: list[Callable[[PostgresJournal], JournalEntry]] = [
    lambda journal: journal.start_attempt(StartAttempt(*PLACE, LATER_NS)),
    lambda journal: journal.end_attempt(answered()),
    lambda journal: journal.close_operation(CloseOperation(*PLACE, LATER_NS)),
    lambda journal: journal.settle(SettleOperation(*PLACE, LATER_NS, Settlement.EXECUTED, "seen")),
]


@pytest.mark.parametrize("change", CHANGES, ids=["start", "end", "close", "settle"])
def test_a_change_is_on_disk_although_the_database_does_not_wait_for_commits(
    change: Callable[[PostgresJournal], JournalEntry], late_commits: str, postgres_server: Postgres
) -> None:
    with closing(PostgresJournal(late_commits)) as journal:
        journal.begin(BeginOperation(ENTRY))
        told = change(journal)
        _crash(postgres_server)

        assert journal.read(ReadOperation(*PLACE)) == told


def test_every_table_is_written_ahead(postgres_url: str) -> None:
    create_schema(postgres_url)
    query = """
        select c.relname from pg_catalog.pg_class as c
        where c.relnamespace = 'replayfloor_client'::regnamespace and c.relpersistence <> 'p'
    """
    with psycopg.connect(postgres_url) as database:
        assert database.execute(query).fetchall() == []
