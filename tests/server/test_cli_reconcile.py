"""`replayfloor reconcile`: one pass, and the job that goes on until it is told to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replayfloor.server.stores.records import ReceiptRecord
from server.cli_databases import Database, Done, of_kind, opened, run

WAIT_S = 20.0
COMMAND = Path(sys.executable).parent / "replayfloor"

OPS = """
import asyncio
import time
from replayfloor.server.reconcile import Applied, NotApplied, StillUnknown

ANSWER = (201, {"location": "/p/1"}, b"reconciled")

def applied(orphan):
    return Applied(ANSWER)

def not_applied(orphan):
    return NotApplied()

async def applied_async(orphan):
    await asyncio.sleep(0)
    return Applied(ANSWER)

class Object:
    def unknown(self, orphan):
        return StillUnknown("not yet")
    async def __call__(self, orphan):
        return NotApplied()

thing = Object()

def hang(orphan):
    print("asked", flush=True)
    time.sleep(60)

async def hang_async(orphan):
    print("asked", flush=True)
    await asyncio.sleep(60)

number = 7
"""

names = iter(range(1000))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of either kind."""
    with of_kind(request.param, request) as made:
        yield made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty file."""
    with of_kind("sqlite", request) as made:
        yield made


@pytest.fixture
def ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder that holds reconcilers."""
    name = f"ops_{next(names)}"
    (tmp_path / f"{name}.py").write_text(OPS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def once(url: str, reconciler: str, *more: str) -> Done:
    """Make one pass over every orphan, however young."""
    return run("reconcile", url, "--with", reconciler, "--once", "--older-than-s", "0", *more)


@pytest.mark.parametrize(
    ("reconciler", "said"),
    [
        ("applied", "applied 2, not applied 0, unknown 0, skipped 0"),
        ("applied_async", "applied 2, not applied 0, unknown 0, skipped 0"),
        ("not_applied", "applied 0, not applied 2, unknown 0, skipped 0"),
        ("thing", "applied 0, not applied 2, unknown 0, skipped 0"),
        ("thing.unknown", "applied 0, not applied 0, unknown 2, skipped 0"),
    ],
)
def test_a_pass_asks_a_function_of_either_colour_and_says_what_it_did(
    database: Database, ops: str, reconciler: str, said: str
) -> None:
    orphans = [database.orphan(), database.orphan()]
    database.in_flight()

    done = once(database.url, f"{ops}:{reconciler}")

    assert (done.code, done.text) == (0, f"{said}\n")
    found = [database.records.find(id_.hex()) for id_ in orphans]
    if reconciler.startswith("applied"):
        for record in found:
            assert isinstance(record, ReceiptRecord)
            assert record.receipt is not None
            assert record.receipt.response.body == b"reconciled"
    assert len(database.records.claims(10)) == (3 if "unknown" in reconciler else 1)


def test_a_pass_leaves_young_orphans_and_more_than_its_limit(sqlite: Database, ops: str) -> None:
    for _ in range(3):
        sqlite.orphan()

    young = run("reconcile", sqlite.url, "--with", f"{ops}:applied", "--once")
    limited = once(sqlite.url, f"{ops}:applied", "--limit", "2")

    assert young.text.startswith("applied 0")
    assert limited.text.startswith("applied 2")
    assert len(sqlite.records.orphans(10)) == 1


def test_a_reconciler_that_hangs_has_its_time_and_no_more(sqlite: Database, ops: str) -> None:
    sqlite.orphan()
    began = time.monotonic()

    done = once(sqlite.url, f"{ops}:hang", "--answer-s", "0.2")

    assert done.text.endswith("unknown 1, skipped 0\n")
    assert time.monotonic() - began < WAIT_S / 2
    assert len(sqlite.records.orphans(10)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--with", "no_such_module_here:f", "--once"),
        ("--with", "{ops}:no_such_name", "--once"),
        ("--with", "{ops}", "--once"),
        ("--with", "{ops}:number", "--once"),
        ("--with", "{ops}:Object", "--once"),
        ("--with", "{ops}:applied"),
        ("--with", "{ops}:applied", "--once", "--every", "5"),
        ("--with", "{ops}:applied", "--every", "0.1"),
        ("--with", "{ops}:applied", "--once", "--answer-s", "0"),
        ("--once",),
    ],
    ids=" ".join,
)
def test_a_command_that_cannot_be_carried_out_ends_with_2(
    sqlite: Database, ops: str, wrong: tuple[str, ...]
) -> None:
    sqlite.orphan()

    done = run("reconcile", sqlite.url, *(word.replace("{ops}", ops) for word in wrong))

    assert done.code == 2
    assert done.err
    assert len(sqlite.records.orphans(10)) == 1


def test_a_pass_over_a_database_that_is_away_ends_with_1(ops: str, tmp_path: Path) -> None:
    away = once("postgresql://u:s3cret@127.0.0.1:1/d", f"{ops}:applied")
    missing = once(f"sqlite:///{tmp_path}/no.db", f"{ops}:applied")

    assert (away.code, missing.code) == (1, 1)
    assert "s3cret" not in away.err
    assert not (tmp_path / "no.db").exists()


# -- the installed command, as a process ----------------------------------------------------------


@contextmanager
def job(url: str, reconciler: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the job; kill it afterwards if it is still there."""
    assert shutil.which(COMMAND), "the command is not installed"
    words = ["reconcile", url, "--with", reconciler, "--older-than-s", "0", *more]
    process = subprocess.Popen(
        [COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a process; return its exit code and the rest of its output."""
    text, _ = process.communicate(timeout=WAIT_S)
    return process.returncode, text


def test_the_job_settles_new_orphans_until_it_is_told_to_end(database: Database, ops: str) -> None:
    with job(database.url, f"{ops}:applied", "--every", "1") as process:
        for _ in range(2):
            database.orphan()
            wait_for(lambda: not database.records.claims(10))
        process.send_signal(signal.SIGTERM)
        code, text = ended(process)

    assert code == 0
    assert "SIGTERM: ending" in text
    assert len(database.records.receipts(10)) == 2


def test_the_job_goes_on_after_an_outage(tmp_path: Path, ops: str) -> None:
    url = f"sqlite:///{tmp_path}/later.db"
    with job(url, f"{ops}:applied", "--every", "1") as process:
        assert process.stdout is not None
        while "the next one goes on" not in (line := process.stdout.readline()):
            assert line, "it ended"
        with opened(url) as database:
            database.orphan()
            wait_for(lambda: not database.records.claims(10))
        process.send_signal(signal.SIGTERM)
        code, _text = ended(process)

    assert code == 0


@pytest.mark.parametrize("reconciler", ["hang", "hang_async"])
def test_a_job_that_is_told_to_end_gives_back_the_orphan_it_is_at(
    database: Database, ops: str, reconciler: str
) -> None:
    id_ = database.orphan()
    with job(database.url, f"{ops}:{reconciler}", "--every", "5") as process:
        assert process.stdout is not None
        while "asked" not in (line := process.stdout.readline()):
            assert line, "it ended"
        assert database.records.orphans(10) == []
        process.send_signal(signal.SIGTERM)
        code, _text = ended(process)

    assert code == 0
    assert [each.id for each in database.records.orphans(10)] == [id_]


def test_a_single_pass_that_is_interrupted_says_so(sqlite: Database, ops: str) -> None:
    sqlite.orphan()
    with job(sqlite.url, f"{ops}:hang", "--once") as process:
        assert process.stdout is not None
        while "asked" not in (line := process.stdout.readline()):
            assert line, "it ended"
        process.send_signal(signal.SIGINT)
        code, text = ended(process)

    assert code == 1
    assert "Interrupted" in text
