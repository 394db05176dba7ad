"""Processes that share a journal in Postgres: one of them wins, by the database's clock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from time import sleep, time_ns

import psycopg
import pytest

from replayfloor.client.journal import PostgresJournal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.client.journal.rows import encoded
from replayfloor.client.journal.statements import postgres_statement
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    JournalEntry,
    PruneOperations,
    RenewLease,
    StartAttempt,
)
from replayfloor.testing.journal_contract import ENTRY, LATER_NS, PLACE
from replayfloor.testing.journal_subject import ONE, OTHER, answered

ROUNDS = 100
RACERS = 2
TIMEOUT_S = 60.0
PAUSE_S = 0.01

# Both processes wait for the other in the database, so that they set out together.
RACE = """
import json, sys
from dataclasses import replace
import psycopg
from replayfloor.client.journal import PostgresJournal
from replayfloor.core.journal import BeginOperation, StartAttempt
from replayfloor.testing.journal_contract import ENTRY, LATER_NS

url, racer, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
journal = PostgresJournal(url)
gate = psycopg.connect(url, autocommit=True)
owner = bytes([racer + 1]) * 16
begun, leased = [], []

def meet(number):
    gate.execute("insert into public.gate values (%s)", (number,))
    count = "select count(*) from public.gate where number = %s"
    while gate.execute(count, (number,)).fetchone()[0] < 2:
        pass

for number in range(rounds):
    # The id is the same and the keys are not, or the other way round.
    ids = (f"id-{number}", f"key-{number}-{racer}")
    name, key = ids if number % 2 else (f"id-{number}-{racer}", f"key-{number}")
    entry = replace(ENTRY, operation_id=name, key=key)
    meet(2 * number)
    stands = journal.begin(BeginOperation(entry))
    if not stands.resumed:
        begun.append(number)
    place = (entry.namespace, stands.entry.operation_id)
    meet(2 * number + 1)
    entry = journal.start_attempt(StartAttempt(*place, LATER_NS, 0, owner, 60.0))
    if entry.lease_owner == owner:
        leased.append(number)
print(json.dumps([begun, leased]))
"""


def test_of_two_processes_one_begins_an_operation_and_one_gets_its_lease_every_time(
    postgres_url: str,
) -> None:
    create_schema(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute("create table public.gate (number integer)")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, postgres_url, str(racer), str(ROUNDS)],
            stdout=subprocess.PIPE,
        )
        for racer in range(RACERS)
    ]
    told = [json.loads(racer.communicate(timeout=TIMEOUT_S)[0]) for racer in racers]

    for wins in zip(*told, strict=True):
        assert sorted(number for each in wins for number in each) == list(range(ROUNDS))
    with closing(PostgresJournal(postgres_url)) as journal:
        assert {entry.attempts for entry in journal.history()} == {2}
        assert len(journal.history()) == ROUNDS


# -- the clock ------------------------------------------------------------------------------------

HOUR_NS = 3600 * 10**9
LEASE_S = 30.0
SLACK_NS = 20 * 10**9
"""What a busy machine takes for a test at most."""


@pytest.fixture
def journal(postgres_url: str) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(postgres_url)) as journal:
        yield journal


def _lasts(entry: JournalEntry, owner: bytes) -> bool:
    """Whether the lease is the owner's for LEASE_S from now, by the clock of this machine."""
    left_ns = entry.lease_until_ns - time_ns()
    return entry.lease_owner == owner and abs(left_ns - LEASE_S * 10**9) < SLACK_NS


@pytest.mark.parametrize("wrong_by_ns", [-HOUR_NS, 0, HOUR_NS, 100 * 24 * HOUR_NS])
def test_a_lease_begins_and_ends_by_the_clock_of_the_database(
    journal: PostgresJournal, wrong_by_ns: int
) -> None:
    """Whatever the clocks of those who call show."""
    wrong_ns = time_ns() + wrong_by_ns
    entry = replace(ENTRY, lease_owner=ONE, last_seen_at_ns=wrong_ns)
    mine = StartAttempt(*PLACE, wrong_ns, 0, ONE, LEASE_S)

    begun = journal.begin(BeginOperation(entry, LEASE_S)).entry
    started = journal.start_attempt(mine)
    refused = journal.start_attempt(replace(mine, lease_owner=OTHER))
    renewed = journal.renew_lease(RenewLease(*PLACE, wrong_ns, ONE, LEASE_S))

    assert [_lasts(each, ONE) for each in (begun, started, refused, renewed)] == [True] * 4
    assert (refused.attempts, refused.lease_until_ns) == (2, started.lease_until_ns)


def test_a_lease_that_has_ended_by_that_clock_is_taken_by_a_machine_that_is_an_hour_behind(
    journal: PostgresJournal, postgres_url: str
) -> None:
    journal.begin(BeginOperation(replace(ENTRY, lease_owner=ONE), LEASE_S))
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute(
            "update replayfloor_client.operations"
            " set lease_until_ns = replayfloor_client.clock_ns_v1()"
        )
    behind_ns = time_ns() - HOUR_NS

    entry = journal.start_attempt(StartAttempt(*PLACE, behind_ns, 0, OTHER, LEASE_S))

    assert entry.attempts == 2
    assert _lasts(entry, OTHER)


# -- what others do meanwhile ---------------------------------------------------------------------


def test_an_attempt_that_waits_for_another_one_decides_on_what_that_has_left(
    journal: PostgresJournal, postgres_url: str
) -> None:
    """The look at the lease and its taking are one: what was seen before the wait is old."""
    journal.begin(BeginOperation(ENTRY))
    first = {"at_ns": 0, "elapsed_ns": 0, "lease_owner": ONE, "lease_ns": HOUR_NS}
    place = {"namespace": PLACE[0], "operation_id": PLACE[1]}
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as thread:
        other.execute(postgres_statement("start_attempt"), place | first)
        second = StartAttempt(*PLACE, LATER_NS, 0, OTHER, LEASE_S)
        waiting = thread.submit(journal.start_attempt, second)
        _wait_until_somebody_waits(postgres_url)
        other.commit()

    entry = waiting.result()
    assert (entry.attempts, entry.lease_owner) == (2, ONE)


@pytest.mark.parametrize("same", ["operation_id", "key"])
def test_a_begin_that_waits_for_another_one_returns_what_that_has_inserted(
    same: str, journal: PostgresJournal, postgres_url: str
) -> None:
    assert journal.history() == ()
    by_id, by_key = replace(ENTRY, key="other"), replace(ENTRY, operation_id="other")
    mine = by_id if same == "operation_id" else by_key
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as thread:
        other.execute(postgres_statement("begin"), {**encoded(ENTRY), "lease_ns": 0})
        waiting = thread.submit(journal.begin, BeginOperation(mine))
        _wait_until_somebody_waits(postgres_url)
        other.commit()

    assert waiting.result() == Begun(ENTRY, resumed=True)


def test_a_begin_that_waits_for_one_that_is_undone_inserts(
    journal: PostgresJournal, postgres_url: str
) -> None:
    assert journal.history() == ()
    mine = replace(ENTRY, key="other")
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as thread:
        other.execute(postgres_statement("begin"), {**encoded(ENTRY), "lease_ns": 0})
        waiting = thread.submit(journal.begin, BeginOperation(mine))
        _wait_until_somebody_waits(postgres_url)
        other.rollback()

    assert waiting.result() == Begun(mine, resumed=False)


def test_pruning_waits_for_nobody(journal: PostgresJournal, postgres_url: str) -> None:
    for name in ("1", "2"):
        journal.begin(BeginOperation(replace(ENTRY, operation_id=name, key=name)))
        journal.end_attempt(replace(answered(), operation_id=name))
    with psycopg.connect(postgres_url) as other:
        locked = "select from replayfloor_client.operations where operation_id = '1' for update"
        other.execute(locked)

        assert journal.prune(PruneOperations(None, ENTRY.send_deadline_ns + 1)) == 1
    assert journal.prune(PruneOperations(None, ENTRY.send_deadline_ns + 1)) == 1


def _wait_until_somebody_waits(url: str) -> None:
    waits = "select exists(select from pg_stat_activity where wait_event_type = 'Lock')"
    with psycopg.connect(url, autocommit=True) as database:
        while database.execute(waits).fetchone() != (True,):
            sleep(PAUSE_S)
