"""Every journal of one machine keeps the contract; and what only a file can promise."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from contract.journal_sequences import SEQUENCES, follows_the_rules
from replayfloor.client.journal import (
    Journal,
    MemoryJournal,
    SQLiteJournal,
    open_journal,
    sqlite_file,
)
from replayfloor.client.journal.sqlite_file import SQLiteFile
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.journal import BeginOperation, JournalEntry, StartAttempt
from replayfloor.testing.journal_contract import (
    ENTRY,
    LATER_NS,
    PLACE,
    JournalContract,
    refuses_everything,
)
from replayfloor.testing.journal_simulated import SimulatedJournal

# Kills itself once the call has returned: nothing is flushed, closed or finalised after it.
WRITE_AND_DIE = """
import os, signal, sys
from replayfloor.client.journal import SQLiteJournal
from replayfloor.core.journal import BeginOperation
from replayfloor.testing.journal_contract import ENTRY
SQLiteJournal(sys.argv[1]).begin(BeginOperation(ENTRY))
os.kill(os.getpid(), signal.SIGKILL)
"""
# Keeps the file locked until it is killed.
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
"""
PROCESSES = 4
WRITES_EACH = 20
PATIENCE_S = 60.0
FORK_PATIENCE_S = 30.0


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestSimulatedJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> Journal:
        return SimulatedJournal()


def test_a_simulated_journal_that_is_down_refuses_everything_and_forgets_nothing() -> None:
    journal = SimulatedJournal()
    journal.begin(BeginOperation(ENTRY))
    journal.down = True
    assert refuses_everything(journal)

    journal.down = False
    assert journal.history() == (ENTRY,)


class TestSQLiteJournal(JournalContract):
    @pytest.fixture
    def journal(self, path: Path) -> Iterator[Journal]:
        journal = SQLiteJournal(path)
        yield journal
        journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbound.db"


def test_an_entry_survives_the_death_of_the_process_that_wrote_it(path: Path) -> None:
    died = subprocess.run(
        [sys.executable, "-c", WRITE_AND_DIE, str(path)], timeout=PATIENCE_S, check=False
    )

    assert died.returncode == -signal.SIGKILL
    assert _pending(path) == [ENTRY]


def _pending(path: Path) -> list[JournalEntry]:
    journal = SQLiteJournal(path)
    found = list(journal.pending())
    journal.close()
    return found


def _write_many(path: str) -> None:
    journal = SQLiteJournal(path)
    journal.begin(BeginOperation(ENTRY))
    for _ in range(WRITES_EACH):
        journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
    os._exit(0)  # as a forked child: the parent's test run is not this process's to finish


def test_processes_that_open_the_file_at_the_same_time_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_write_many, args=(str(path),)) for _ in range(PROCESSES)]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_S)

    assert [child.exitcode for child in children] == [0] * PROCESSES
    (entry,) = SQLiteJournal(path).pending()
    assert entry.attempts == 1 + PROCESSES * WRITES_EACH


def _take_lease(path: str, owner: bytes, granted: str) -> None:
    journal = SQLiteJournal(path)
    entry = journal.start_attempt(StartAttempt(*PLACE, LATER_NS, lease_owner=owner, lease_s=30.0))
    if entry.lease_owner == owner:
        Path(granted).touch()
    os._exit(0)


def test_of_several_processes_one_gets_the_lease(path: Path, tmp_path: Path) -> None:
    journal = SQLiteJournal(path)
    journal.begin(BeginOperation(ENTRY))
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(
            target=_take_lease,
            args=(str(path), bytes([n + 1]) * 16, str(tmp_path / f"granted-{n}")),
        )
        for n in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_S)

    assert [child.exitcode for child in children] == [0] * PROCESSES
    assert len(list(tmp_path.glob("granted-*"))) == 1
    (entry,) = journal.pending()
    assert entry.attempts == 2
    journal.close()


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_after_any_sequence_of_effects_the_file_says_what_the_rules_say(
    seed: int, path: Path
) -> None:
    with closing(SQLiteJournal(path)) as journal:
        assert follows_the_rules(journal, seed)


def test_a_file_that_another_process_is_just_opening_is_waited_for(path: Path) -> None:
    """SQLite refuses the switch to WAL at once then, whatever its busy timeout is."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    release = threading.Timer(0.2, other.rollback)
    release.start()
    journal = SQLiteJournal(path)

    begun = journal.begin(BeginOperation(ENTRY))

    assert not begun.resumed
    journal.close()
    release.join()
    other.close()


# From Python 3.12 on, forking is reported if a thread of another test still lives.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@forks
def test_a_fork_waits_for_a_write_and_the_child_can_write(path: Path) -> None:
    """In the middle of it, SQLite's own locks would be copied as they are, and stay so."""
    journal = SQLiteJournal(path)
    journal.begin(BeginOperation(ENTRY))
    writing = threading.Thread(target=journal.start_attempt, args=(StartAttempt(*PLACE, LATER_NS),))
    # Another process, because SQLite keeps the locks of its own in memory, which a fork copies.
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        writing.start()
        time.sleep(0.1)  # by then it waits for the other process
        order: list[str] = []

        def let_go() -> None:
            order.append("let go")
            other.kill()

        threading.Timer(0.3, let_go).start()
        child = _forked(_start_in_child, journal)
        order.append("forked")
    exitcode = _exitcode_of(child)
    writing.join()

    assert order == ["let go", "forked"]
    assert exitcode == 0
    assert journal.start_attempt(StartAttempt(*PLACE, LATER_NS)).attempts == 4
    journal.close()


@forks
def test_a_child_that_is_forked_in_a_write_all_the_same_is_refused_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SQLiteJournal(path)
    journal.begin(BeginOperation(ENTRY))
    monkeypatch.setattr(sqlite_file, "FORK_S", 0.01)  # a write longer than six seconds

    with journal._file._lock:
        child = _forked(_is_refused_in_child, journal, path)

    assert _exitcode_of(child) == 0
    assert journal.start_attempt(StartAttempt(*PLACE, LATER_NS)).attempts == 2
    journal.close()


def test_a_thread_that_waited_for_its_fork_in_vain_leaves_the_other_ones_turn_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FORK_S", 0.01)
    file = SQLiteFile(str(path), schema="")

    def fork_too() -> None:
        file.pause()
        file.resume()

    file.pause()
    other = threading.Thread(target=fork_too)
    other.start()
    other.join()
    assert file._lock.locked()
    file.resume()
    assert not file._lock.locked()


def _forked(work: Callable[..., None], *arguments: object) -> BaseProcess:
    child = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    child.start()
    return child


def _exitcode_of(child: BaseProcess) -> int | None:
    child.join(FORK_PATIENCE_S)
    child.kill()
    child.join()
    return child.exitcode


def _start_in_child(journal: SQLiteJournal) -> None:
    journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
    os._exit(0)


def _is_refused_in_child(journal: SQLiteJournal, path: Path) -> None:
    for file in (journal, SQLiteJournal(path)):
        with pytest.raises(StoreUnavailable, match="forked") as refused:
            file.start_attempt(StartAttempt(*PLACE, LATER_NS))
        assert refused.value.performed is False
    os._exit(0)


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_database_that_is_gone_when_it_is_closed_is_no_journal(name: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a file"):
        SQLiteJournal(name)


def test_every_write_is_flushed_before_it_returns(path: Path) -> None:
    """A weaker setting would survive a killed process, and lose the key to a power failure."""
    SQLiteJournal(path).begin(BeginOperation(ENTRY))
    file = SQLiteFile(str(path), schema="")

    settings = file.run("pragma synchronous", {}) + file.run("pragma journal_mode", {})
    file.close()

    assert settings == [{"synchronous": 2}, {"journal_mode": "wal"}]


def test_another_programs_database_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("create table theirs (id integer)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match="not a journal"):
        SQLiteJournal(path).begin(BeginOperation(ENTRY))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "advice"), [(1, "move the file .* away"), (3, "use the release that wrote it")]
)
def test_a_journal_of_another_schema_is_refused_and_left_as_it_is(
    version: int, advice: str, path: Path
) -> None:
    journal = SQLiteJournal(path)
    journal.begin(BeginOperation(ENTRY))
    journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"pragma user_version = {version}")
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=f"schema version {version}, .*{advice}"):
        SQLiteJournal(path).pending()
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_makes_the_journal_unavailable(path: Path) -> None:
    path.write_bytes(b"not a database, and longer than its header" * 100)

    with pytest.raises(StoreUnavailable):
        SQLiteJournal(path).begin(BeginOperation(ENTRY))


def test_a_folder_that_is_not_there_makes_the_journal_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SQLiteJournal(tmp_path / "nowhere" / "outbound.db").pending()


def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    SQLiteJournal(path)

    assert not path.exists()


def test_a_journal_is_opened_from_its_url(path: Path) -> None:
    journal = open_journal(f"sqlite:///{path}")
    journal.begin(BeginOperation(ENTRY))
    journal.close()

    assert path.exists()
    assert isinstance(open_journal("memory:"), MemoryJournal)


@pytest.mark.parametrize(
    "url",
    ["", "sqlite:", "sqlite:///", "sqlite:///:memory:", "file.db", "postgresql+psycopg://u:pw@h/d"],
)
def test_any_other_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_journal(url)
    assert "pw" not in str(refused.value)
