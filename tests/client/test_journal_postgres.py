"""The transports over a journal in Postgres: one operation on several machines, and after a crash.

And what a call is told of a name that no journal can keep.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import pytest

from client.clients import NO_TLS, PATIENCE_S, PROFILE, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply
from replayfloor.client import IdempotentTransport, JournalUnavailable
from replayfloor.client.journal import (
    Journal,
    MemoryJournal,
    PostgresJournal,
    SQLiteJournal,
)
from replayfloor.client.operations import OperationBusy, settle
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import BeginOperation, OperationState, ReadOperation, Settlement
from replayfloor.core.journal_rules import NS_PER_S
from replayfloor.testing.journal_contract import ENTRY
from support.services import Postgres

PROCESS_S = 60.0
TASKS = 20

PAY_AND_DIE = """
import os, signal, sys
import httpx
from replayfloor.client import IdempotentTransport, Profile, RetryPolicy
url, journal = sys.argv[1:]
def die(event):
    if type(event).__name__ == "WaitStarted":
        os.kill(os.getpid(), signal.SIGKILL)
transport = IdempotentTransport(
    profile=Profile(name="provider", retention_s=86_400), journal=journal, on_event=die,
    retry=RetryPolicy(lease_s=1.0),
)
with httpx.Client(transport=transport) as client:
    client.post(url, content=b"pay", extensions={"idempotency": {"operation_id": "invoice-1"}})
"""


@pytest.fixture
def journal(postgres_url: str) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(postgres_url)) as journal:
        yield journal


def test_a_lease_is_judged_by_the_databases_clock_when_an_operation_is_settled(
    journal: PostgresJournal,
) -> None:
    fast_ns, owner = time.time_ns() + 3600 * NS_PER_S, bytes([1] * 16)
    leased = replace(ENTRY, lease_owner=owner)
    place = (ENTRY.namespace, ENTRY.operation_id)
    journal.begin(BeginOperation(leased, lease_s=60.0))

    with pytest.raises(OperationBusy, match="Nothing was settled"):
        settle(journal, *place, Settlement.EXECUTED, "seen", fast_ns)
    standing = journal.read(ReadOperation(*place))
    assert standing is not None
    assert standing.state is OperationState.OPEN

    forced = settle(journal, *place, Settlement.EXECUTED, "seen", fast_ns, force=True)
    assert (forced.state, forced.lease_owner) == (OperationState.SETTLED, b"")


def test_an_ended_lease_does_not_keep_a_slow_machine_from_settling(
    journal: PostgresJournal,
) -> None:
    slow_ns, owner = time.time_ns() - 3600 * NS_PER_S, bytes([1] * 16)
    journal.begin(BeginOperation(replace(ENTRY, lease_owner=owner), lease_s=0.05))
    time.sleep(0.1)

    settled = settle(
        journal, ENTRY.namespace, ENTRY.operation_id, Settlement.EXECUTED, "seen", slow_ns
    )

    assert settled.state is OperationState.SETTLED


def test_a_killed_process_is_followed_by_one_with_the_same_key(
    loopback: Loopback, postgres_url: str, journal: PostgresJournal
) -> None:
    loopback.script(DROP, OK)
    died = subprocess.run(
        [sys.executable, "-c", PAY_AND_DIE, loopback.url(), postgres_url],
        timeout=PROCESS_S,
        check=False,
    )
    (entry,) = journal.pending()
    response = _pay(postgres_url, loopback)

    assert died.returncode == -signal.SIGKILL
    assert set(loopback.keys()) == {f'"{entry.key}"'}
    assert (info(response).resumed, info(response).attempts) == (True, 2)


def _pay(journal: str, loopback: Loopback) -> httpx.Response:
    """Call once as a machine of its own, with real clocks and waits."""
    transport = IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS), profile=PROFILE, journal=journal
    )
    with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
        return client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))


def test_of_two_machines_one_sends_and_the_other_waits_for_its_answer(
    loopback: Loopback, postgres_url: str
) -> None:
    loopback.script(Reply(201, delay_s=0.5), Reply(201, (("Idempotent-Replayed", "true"),)))
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(_pay, postgres_url, loopback) for _ in range(2)]

    replayed = sorted(info(call.result()).replayed for call in calls)
    assert (replayed, len(loopback.received)) == ([False, True], 2)
    assert len(set(loopback.keys())) == 1


@pytest.mark.anyio
async def test_many_tasks_share_the_journal(loopback: Loopback, journal: PostgresJournal) -> None:
    """Each call of it in a worker thread, more of them than it has connections."""
    loopback.script(OK)
    async with Setup(journal=journal).async_client() as client:

        async def post(number: int) -> None:
            await client.post(loopback.url(), content=b"pay", extensions=named(f"invoice-{number}"))

        async with anyio.create_task_group() as group:
            for number in range(TASKS):
                group.start_soon(post, number)

    assert [entry.state for entry in journal.history()] == [OperationState.DONE] * TASKS
    assert len(set(loopback.keys())) == TASKS


def test_a_database_that_is_away_stops_everything_before_the_first_byte(
    loopback: Loopback, journal: PostgresJournal, postgres_server: Postgres
) -> None:
    postgres_server.crash()
    with Setup(journal=journal).client() as client, pytest.raises(JournalUnavailable):
        client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))

    assert loopback.received == []


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """A journal of each kind."""
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with closing(SQLiteJournal(tmp_path / "outbound.db")) as file:
            yield file
    else:
        with closing(PostgresJournal(request.getfixturevalue("postgres_url"))) as journal:
            yield journal


@pytest.mark.parametrize("operation_id", ["invoice \x00", "invoice \ud83d"], ids=ascii)
def test_an_operation_id_that_no_journal_can_keep_is_refused_and_nothing_is_sent(
    operation_id: str, loopback: Loopback, any_journal: Journal
) -> None:
    setup = Setup(journal=any_journal)
    with setup.client() as client:
        with pytest.raises(UsageError, match="operation_id"):
            client.post(loopback.url(), content=b"pay", extensions=named(operation_id))
        client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))

    assert len(loopback.received) == 1
    assert [entry.operation_id for entry in any_journal.history()] == ["invoice-1"]
