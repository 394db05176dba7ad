"""What was told is on disk, whatever the database, the role or the server is set to."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import redis
from psycopg import sql

from faults.conftest import Stack
from faults.senders import (
    UNAVAILABLE,
    UNKNOWN,
    in_background,
    is_replay,
    kind_of,
    post,
    retry,
    wait_for_handler,
)
from support.services import Postgres

both_ways = pytest.mark.parametrize("path", ["/atomic", "/external"])
"""The receipt is committed with the effect, or by itself."""


def crash(server: Postgres, lock_url: str) -> None:
    """Kill Postgres at once, and make Redis forget; then let both serve again."""
    server.crash()
    server.start()
    with redis.Redis.from_url(lock_url) as lock:
        lock.flushall()


@pytest.fixture
def late_commits(postgres_stack: Stack, postgres_server: Postgres) -> Iterator[Stack]:
    """A stack on a database whose commits are not waited for, on a server that takes its time.

    Such a commit is on disk when the WAL writer gets to it, which is in 0.2 s by default, and here
    later than any test.
    """
    with psycopg.connect(postgres_stack.receipts_url, autocommit=True) as database:
        name = sql.Identifier(database.info.dbname)
        database.execute(sql.SQL("alter database {} set synchronous_commit = off").format(name))
        database.execute("alter system set wal_writer_delay = '10s'")
    postgres_server.stop()
    postgres_server.start()
    for worker in postgres_stack.workers:
        worker.kill()
        worker.start()
    yield postgres_stack
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        database.execute("alter system reset wal_writer_delay")
        database.execute("select pg_reload_conf()")


def test_every_table_is_written_ahead(postgres_stack: Stack) -> None:
    query = """
        select c.relname from pg_catalog.pg_class as c
        where c.relnamespace = 'replayfloor'::regnamespace and c.relpersistence <> 'p'
    """
    with psycopg.connect(postgres_stack.receipts_url) as database:
        assert database.execute(query).fetchall() == []


@both_ways
def test_an_answer_that_was_sent_is_replayed_after_a_crash_of_postgres(
    postgres_stack: Stack, postgres_server: Postgres, path: str
) -> None:
    told = post(postgres_stack.workers[0], path, "i1")
    crash(postgres_server, postgres_stack.lock_url)
    again = retry(postgres_stack.workers[1], path, "i1", past=[UNAVAILABLE])

    assert again.content == told.content
    assert is_replay(again)
    assert postgres_stack.rows("i1") == 1


@both_ways
def test_a_receipt_is_on_disk_although_the_database_does_not_wait_for_commits(
    late_commits: Stack, postgres_server: Postgres, path: str
) -> None:
    told = post(late_commits.workers[0], path, "i2")
    crash(postgres_server, late_commits.lock_url)
    again = retry(late_commits.workers[1], path, "i2", past=[UNAVAILABLE])

    assert is_replay(again)
    assert again.content == told.content


def test_a_claim_is_on_disk_although_the_database_does_not_wait_for_commits(
    late_commits: Stack, postgres_server: Postgres
) -> None:
    first, second = late_commits.workers
    in_background(first, "/external", "i3", before="30000")
    wait_for_handler(first, "before")
    crash(postgres_server, late_commits.lock_url)
    first.kill()
    answer = retry(second, "/external", "i3")

    assert kind_of(answer) is UNKNOWN
