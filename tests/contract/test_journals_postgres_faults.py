"""A journal in Postgres when the server is away, hangs or refuses, and when its process forks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from time import monotonic
from typing import TypeVar

import psycopg
import pytest
from psycopg import sql

from replayfloor.client.journal import PostgresJournal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    JournalEntry,
    OperationState,
    ReadOperation,
    ReleaseLease,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_contract import ENTRY, LATER_NS, PLACE
from replayfloor.testing.journal_subject import ended
from support.services import Postgres

WRITERS = 4
PATIENCE_S = 60.0
R = TypeVar("R")

OPERATION_S = 0.5
CONNECT_S = 2.0
"""What connecting may take at least."""
MARGIN_S = 1.5
"""For a busy machine; a wait without end is far above it."""


def _entry(name: str) -> JournalEntry:
    return replace(ENTRY, operation_id=name, key=f"key of {name}")


@contextmanager
def _unavailable_in(seconds: float) -> Iterator[None]:
    began = monotonic()
    with pytest.raises(StoreUnavailable):
        yield
    assert monotonic() - began < seconds + MARGIN_S


# -- no wait without end --------------------------------------------------------------------------


def test_a_server_that_hangs_is_given_up_in_time_and_used_again_later(
    postgres_url: str, postgres_server: Postgres
) -> None:
    with closing(PostgresJournal(postgres_url, operation_s=OPERATION_S)) as journal:
        journal.begin(BeginOperation(ENTRY))
        postgres_server.freeze()

        with _unavailable_in(OPERATION_S):
            journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
        with _unavailable_in(OPERATION_S):
            journal.read(ReadOperation(*PLACE))

        postgres_server.thaw()
        found = _patiently(lambda: journal.read(ReadOperation(*PLACE)))
        assert found is not None
        assert found.attempts in (1, 2)  # the answer was lost, not always the statement


def test_a_server_that_hangs_at_the_first_use_is_given_up_in_time(
    postgres_url: str, postgres_server: Postgres
) -> None:
    with closing(PostgresJournal(postgres_url, operation_s=OPERATION_S)) as journal:
        postgres_server.freeze()

        with _unavailable_in(CONNECT_S):
            journal.begin(BeginOperation(ENTRY))

        postgres_server.thaw()
        assert not _patiently(lambda: journal.begin(BeginOperation(ENTRY))).resumed


def test_a_row_that_somebody_keeps_locked_is_given_up_in_time(postgres_url: str) -> None:
    with closing(PostgresJournal(postgres_url, operation_s=OPERATION_S)) as journal:
        journal.begin(BeginOperation(ENTRY))
        with psycopg.connect(postgres_url) as other:
            other.execute("select from replayfloor_client.operations for update")
            with _unavailable_in(OPERATION_S):
                journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

        # What was given up may have been performed after it.
        assert journal.start_attempt(StartAttempt(*PLACE, LATER_NS)).attempts in (2, 3)


def test_nobody_at_the_port_is_unavailable_and_the_reason_is_told(
    postgres_url: str, postgres_server: Postgres
) -> None:
    postgres_server.stop()
    with (
        closing(PostgresJournal(postgres_url)) as journal,
        pytest.raises(StoreUnavailable, match="refused") as raised,
    ):
        journal.begin(BeginOperation(ENTRY))
    assert raised.value.performed is False


def test_a_restart_of_the_server_costs_no_operation(
    postgres_url: str, postgres_server: Postgres
) -> None:
    """Every idle connection is dead after it, and none of them is taken for a good one."""
    with closing(PostgresJournal(postgres_url, operation_s=OPERATION_S)) as journal:
        names = [f"invoice-{number}" for number in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(lambda name: journal.begin(BeginOperation(_entry(name))), names))
        postgres_server.stop()
        postgres_server.start()

        assert len(journal.history()) == WRITERS


def test_a_database_that_is_read_only_makes_the_journal_unavailable(postgres_url: str) -> None:
    create_schema(postgres_url)
    _set(postgres_url, "default_transaction_read_only", "on")
    with closing(PostgresJournal(postgres_url)) as journal:
        with pytest.raises(StoreUnavailable, match="read-only"):
            journal.begin(BeginOperation(ENTRY))
        assert journal.history() == ()


def test_a_right_that_is_taken_away_makes_the_journal_unavailable(postgres_url: str) -> None:
    with closing(PostgresJournal(postgres_url)) as journal:
        journal.begin(BeginOperation(ENTRY))
        with psycopg.connect(postgres_url, autocommit=True) as database:
            database.execute("alter table replayfloor_client.operations rename to elsewhere")

        with pytest.raises(StoreUnavailable, match="does not exist"):
            journal.begin(BeginOperation(ENTRY))
        with pytest.raises(StoreUnavailable):
            journal.release_lease(ReleaseLease(*PLACE, b""))


def test_a_number_that_no_column_holds_makes_the_journal_unavailable(postgres_url: str) -> None:
    with closing(PostgresJournal(postgres_url)) as journal:
        with pytest.raises(StoreUnavailable):
            journal.begin(BeginOperation(replace(ENTRY, first_attempt_at_ns=2**63)))
        journal.begin(BeginOperation(ENTRY))
        with pytest.raises(StoreUnavailable):
            journal.end_attempt(replace(ended(Outcome.UNKNOWN), at_ns=2**70))

        assert journal.read(ReadOperation(*PLACE)) == ENTRY


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_stricter_isolation_by_default_changes_nothing(level: str, postgres_url: str) -> None:
    create_schema(postgres_url)
    _set(postgres_url, "default_transaction_isolation", level)
    threads, attempts = WRITERS, 5
    with closing(PostgresJournal(postgres_url)) as journal:

        def use(writer: int) -> bool:
            entry = replace(ENTRY, key=f"key-{writer}")
            resumed = journal.begin(BeginOperation(entry)).resumed
            for _ in range(attempts):
                journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
            return resumed

        with ThreadPoolExecutor(threads) as pool:
            resumed = list(pool.map(use, range(threads)))
        assert resumed.count(False) == 1
        entry = journal.read(ReadOperation(*PLACE))

    assert entry is not None
    assert (entry.attempts, entry.state) == (1 + threads * attempts, OperationState.OPEN)


def _set(url: str, name: str, value: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        of = sql.Identifier(database.info.dbname)
        setting = sql.SQL("alter database {} set {} = {}")
        database.execute(setting.format(of, sql.Identifier(name), sql.Literal(value)))


def _patiently(perform: Callable[[], R]) -> R:
    """A server that has just been thawed has old answers to give first."""
    give_up_at = monotonic() + PATIENCE_S
    while True:
        try:
            return perform()
        except StoreUnavailable:
            if monotonic() > give_up_at:
                raise


# -- processes ------------------------------------------------------------------------------------

FORK = """
import os, sys
from dataclasses import replace
from replayfloor.client.journal import PostgresJournal
from replayfloor.core.journal import BeginOperation, ReadOperation
from replayfloor.testing.journal_contract import ENTRY

READS = 100
journal = PostgresJournal(sys.argv[1])

def begin(name):
    journal.begin(BeginOperation(replace(ENTRY, operation_id=name, key=name)))

def reads(name):
    found = {journal.read(ReadOperation(ENTRY.namespace, name)).operation_id for _ in range(READS)}
    return found == {name}

begin("parent")
begin("child")
child = os.fork()
if child == 0:
    # Answers that the parent never asks for: to read its would show.
    done = reads("child")
    journal.close()
    os._exit(0 if done else 1)
mine = reads("parent")
_, status = os.waitpid(child, 0)
print(mine, status, reads("parent"))
"""


def test_parent_and_child_use_connections_of_their_own_and_an_unclosed_journal_ends(
    postgres_url: str,
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, postgres_url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    # A thread of the pool that was waited for at the end would be reported.
    assert (done.stdout, done.stderr) == ("True 0 True\n", "")
