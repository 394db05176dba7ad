"""What of a SQLite journal waits for the disk, and when: before a send everything, after it less.

The mode is read from the journal's own connection after each write; how often it asks the disk is
counted at the system calls of a process of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from client.clients import PROFILE, Setup, named
from client.loopback import Loopback, Reply
from replayfloor.client.journal import SQLiteJournal
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    ReadOperation,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_contract import ENTRY, LATER_NS, PLACE

NORMAL, FULL = 1, 2
PROCESS_S = 60.0
CALLS = 5

SEND = """
import sys, httpx
from replayfloor.client import IdempotentTransport, Profile
class Answers(httpx.BaseTransport):
    def handle_request(self, request):
        return httpx.Response(201, content=b"paid")
profile = Profile(name="provider", retention_s=86_400)
transport = IdempotentTransport(Answers(), profile=profile, journal=sys.argv[1])
with httpx.Client(transport=transport) as client:
    for number in range(int(sys.argv[2])):
        assert client.post("http://127.0.0.1/", content=b"pay").status_code == 201
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    with closing(SQLiteJournal(tmp_path / "outbound.db")) as journal:
        yield journal


def _mode(journal: SQLiteJournal) -> int:
    """Return what a commit of the journal's connection waits for."""
    connection = journal._file._connection  # pyright: ignore[reportPrivateUsage]
    assert connection is not None
    (row,) = connection.execute("pragma synchronous").fetchall()
    return int(row[0])


def _ended(*, done: bool, retention_s: float | None = None) -> EndAttempt:
    outcome = Outcome.DEFINITIVE if done else Outcome.UNKNOWN
    return EndAttempt(
        *PLACE, LATER_NS, outcome, "e", done, retention_s=retention_s, send_deadline_ns=LATER_NS
    )


def test_the_entry_is_on_the_disk_before_anything_is_sent(journal: SQLiteJournal) -> None:
    journal.begin(BeginOperation(ENTRY))
    assert _mode(journal) == FULL

    journal.end_attempt(_ended(done=True))
    journal.begin(BeginOperation(replace(ENTRY, operation_id="invoice-2", key="k2")))

    assert _mode(journal) == FULL


def test_a_further_attempt_is_on_the_disk_before_it_is_sent(journal: SQLiteJournal) -> None:
    journal.begin(BeginOperation(ENTRY))
    journal.end_attempt(_ended(done=True))

    journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

    assert _mode(journal) == FULL


def test_the_end_that_finishes_an_operation_waits_for_nothing(journal: SQLiteJournal) -> None:
    journal.begin(BeginOperation(ENTRY))

    journal.end_attempt(_ended(done=True))

    assert _mode(journal) == NORMAL


def test_an_end_that_leaves_the_operation_open_is_on_the_disk(journal: SQLiteJournal) -> None:
    journal.begin(BeginOperation(ENTRY))
    journal.end_attempt(_ended(done=True))

    journal.end_attempt(_ended(done=False))

    assert _mode(journal) == FULL


def test_a_deadline_that_the_server_has_changed_is_on_the_disk(journal: SQLiteJournal) -> None:
    journal.begin(BeginOperation(ENTRY))
    journal.end_attempt(_ended(done=True))

    journal.end_attempt(_ended(done=True, retention_s=5.0))

    assert _mode(journal) == FULL


@pytest.mark.parametrize("settled", [True, False])
def test_what_latches_an_operation_is_on_the_disk(journal: SQLiteJournal, *, settled: bool) -> None:
    journal.begin(BeginOperation(ENTRY))
    journal.end_attempt(_ended(done=True))

    if settled:
        journal.settle(SettleOperation(*PLACE, LATER_NS, Settlement.EXECUTED, "seen"))
    else:
        journal.close_operation(CloseOperation(*PLACE, LATER_NS))

    assert _mode(journal) == FULL


class Observed(SQLiteJournal):
    """It notes what each end of an attempt tells of the retention."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.told: list[float | None] = []

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        self.told.append(effect.retention_s)
        return super().end_attempt(effect)


def test_an_advertised_retention_is_told_once_and_then_begun_with(
    tmp_path: Path, loopback: Loopback
) -> None:
    advertised = Reply(headers=(("Idempotency-Key-Lifetime", "3600"),))
    loopback.script(advertised, advertised)
    with closing(Observed(tmp_path / "outbound.db")) as journal:
        setup = Setup(profile=PROFILE, journal=journal)
        with setup.client() as client:
            for number in ("1", "2"):
                client.post(loopback.url(), extensions=named(number)).raise_for_status()
        entries = [journal.read(ReadOperation(PROFILE.namespace, each)) for each in ("1", "2")]

    assert journal.told == [3600.0, None]
    assert [each and each.retention_s for each in entries] == [3600.0, 3600.0]


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_a_call_asks_the_disk_once(tmp_path: Path) -> None:
    def flushes(calls: int) -> int:
        trace, url = tmp_path / f"{calls}.trace", f"sqlite:///{tmp_path / str(calls)}.db"
        command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
        command += [sys.executable, "-c", SEND, url, str(calls)]
        ended = subprocess.run(command, timeout=PROCESS_S, capture_output=True, check=False)
        if b"ptrace" in ended.stderr:
            pytest.skip("no process may be traced here")
        assert ended.returncode == 0, ended.stderr
        return trace.read_text().count("sync(")

    assert flushes(2 * CALLS) - flushes(CALLS) == CALLS


def test_a_finished_operation_survives_its_process(tmp_path: Path, loopback: Loopback) -> None:
    path = tmp_path / "outbound.db"
    script = (
        "import os, signal, sys, httpx\n"
        "from replayfloor.client import IdempotentTransport, Profile\n"
        "profile = Profile(name='provider', retention_s=86_400)\n"
        "transport = IdempotentTransport(profile=profile, journal=sys.argv[1])\n"
        "extensions = {'idempotency': {'operation_id': '1'}}\n"
        "client = httpx.Client(transport=transport)\n"
        "assert client.post(sys.argv[2], extensions=extensions).status_code == 201\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{path}", loopback.url()]
    subprocess.run(command, timeout=PROCESS_S, check=False)

    with closing(SQLiteJournal(path)) as journal:
        entry = journal.read(ReadOperation("provider", "1"))

    assert entry is not None
    assert (entry.state, entry.final_status) == ("done", 201)
