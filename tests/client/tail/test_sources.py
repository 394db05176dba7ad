"""Reading journals and JSON lines: whole, once, and without changing anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from client.clients import POLICY, PROFILE, FakeTime, named
from client.loopback import DROP, OK, Loopback
from client.tail.invented import AT, S, entry, fill, gathered, story, write
from replayfloor.client import IdempotentTransport
from replayfloor.client.journal import open_journal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.client.tail import sources
from replayfloor.client.tail.sources import Source, expand, read
from replayfloor.client.telemetry import JSONLines
from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.core.journal import HISTORY_MAX, JournalEntry, OperationState, ReadHistory


def journal_of(path: Path, *entries: JournalEntry) -> str:
    with closing(open_journal(f"sqlite:///{path}")) as journal:
        fill(journal, entries)
    return f"sqlite:///{path}"


def test_a_journal_is_read_whole_over_several_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    class Small(ReadHistory):
        def __new__(cls, **fields: object) -> ReadHistory:  # type: ignore[misc]
            limits.append(3)
            return ReadHistory(limit=3, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "ReadHistory", Small)
    url = journal_of(
        tmp_path / "j.db",
        *(entry(f"op{n}", first_ago_s=9, namespace=f"shop{n % 2}") for n in range(10)),
    )

    (source,) = expand(url)
    told = [(each.namespace, each.operation_id) for each in read(source, AT)]

    assert len(limits) >= 4
    assert told == sorted((f"shop{n % 2}", f"op{n}") for n in range(10))
    assert source.count == 10
    assert HISTORY_MAX > 3


def test_a_journal_in_postgres_is_read_too(postgres_url: str) -> None:
    create_schema(postgres_url)
    with closing(open_journal(postgres_url)) as journal:
        fill(journal, [entry("a", first_ago_s=900, sent_after_s=60)])

    (group,) = gathered(postgres_url).groups

    assert (group.operations, group.attempts) == (1, 2)


def test_a_look_at_a_database_without_a_journal_makes_none(postgres_url: str) -> None:
    with pytest.raises(ConfigurationError, match="no journal in this database"):
        gathered(postgres_url)

    assert create_schema(postgres_url)  # so there was none


HOLDER = """
import sqlite3, sys
from replayfloor.client.journal import open_journal
from client.tail.invented import entry, fill
path = sys.argv[1]
journal = open_journal(f"sqlite:///{path}")
fill(journal, [entry("a", first_ago_s=900)])
writer = sqlite3.connect(path, isolation_level=None)
writer.execute("begin immediate")
writer.execute("update operations set attempts = 99")
print("writing", flush=True)
sys.stdin.readline()
"""


@contextmanager
def a_process_that_is_writing(path: Path) -> Iterator[None]:
    arguments = [sys.executable, "-c", HOLDER, str(path)]
    pipe = subprocess.PIPE
    environment = {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(
        arguments, stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield
        process.communicate("\n")


def test_a_journal_that_another_process_writes_to_is_read_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with a_process_that_is_writing(path):
        (group,) = gathered(f"sqlite:///{path}").groups

    assert (group.operations, group.attempts) == (1, 1)


def test_reading_a_journal_changes_nothing_in_it(tmp_path: Path) -> None:
    url = journal_of(tmp_path / "j.db", entry("a", first_ago_s=9, state=OperationState.OPEN))
    with closing(open_journal(url)) as journal:
        before = journal.history()
        gathered(url)
        assert journal.history() == before


@pytest.mark.parametrize("content", [None, b""])
def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "j.db"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UsageError, match="there is no journal"):
        gathered(f"sqlite:///{path}")

    assert (path.read_bytes() if path.exists() else None) == content


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "j.db", ["not a database at all" * 100])

    with pytest.raises((StoreUnavailable, UsageError)):
        gathered(f"sqlite:///{path}")


def test_lines_of_several_processes_and_files_are_one_operation(tmp_path: Path) -> None:
    lines = list(story("a", [0, 60, 600], first_ago_s=900))
    one = write(tmp_path / "one.jsonl", lines[::2])
    write(tmp_path / "two.jsonl", lines[1::2])

    for found in (gathered(tmp_path / "*.jsonl"), gathered(tmp_path / "*.jsonl", one, one)):
        (group,) = found.groups
        assert (group.operations, group.attempts, group.open.count) == (1, 3, 0)
        assert group.tail.largest is not None
        assert group.tail.largest.ns == 600 * S


def test_an_operation_in_a_journal_and_in_lines_counts_once(tmp_path: Path) -> None:
    url = journal_of(
        tmp_path / "j.db",
        entry("both", first_ago_s=900, state=OperationState.OPEN),
        entry("journal only", first_ago_s=900),
    )
    lines = write(
        tmp_path / "l.jsonl",
        [*story("both", [0], first_ago_s=900), *story("lines only", [0], first_ago_s=900)],
    )

    (group,) = gathered(url, lines).groups

    # The answer is in the lines: the journal could not be written when it came.
    assert (group.operations, group.attempts, group.open.count) == (3, 3, 0)


def test_what_a_person_settled_is_not_open_although_the_lines_say_so(tmp_path: Path) -> None:
    settled = entry("a", first_ago_s=10**6, state=OperationState.SETTLED)
    url = journal_of(tmp_path / "j.db", settled)
    lines = write(tmp_path / "l", story("a", [0, 5], first_ago_s=10**6, ending="unknown"))

    (alone,) = gathered(lines).groups
    (both,) = gathered(url, lines).groups

    assert (alone.unknown.count, both.unknown.count, both.operations) == (1, 0, 1)


def test_a_real_transport_s_journal_and_lines_tell_of_one_operation(
    loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script(DROP, OK)
    time = FakeTime()
    url, lines = f"sqlite:///{tmp_path / 'j.db'}", tmp_path / "l.jsonl"
    with closing(open_journal(url)) as journal:
        transport = IdempotentTransport(
            profile=PROFILE, journal=journal, retry=POLICY, on_event=JSONLines(lines),
            clock=time.clock, sleep=time.sleep, random=lambda: 0.5,
        )  # fmt: skip
        with httpx.Client(transport=transport) as client:
            client.post(loopback.url(), extensions=named("invoice-1"))
    waited_ns = int(sum(time.waits_s) * S)

    for given in ((url,), (lines,), (url, lines)):
        found = gathered(*given, at_ns=time.now_ns)
        (group,) = found.groups
        assert (group.operations, group.attempts, group.open.count) == (1, 2, 0)
        assert group.tail.largest is not None
        assert group.tail.largest.ns == waited_ns > 0
        assert [each.skipped for each in found.found] == [0] * len(given)


@pytest.mark.parametrize(
    "given", ["nowhere.jsonl", "nowhere-*.jsonl", "memory:", "mysql://x/y", "sqlite:relative"]
)
def test_what_is_no_source_is_refused(given: str) -> None:
    with pytest.raises(UsageError):
        expand(given)


def test_a_file_with_a_pattern_in_its_name_is_that_file(tmp_path: Path) -> None:
    path = write(tmp_path / "l[1].jsonl", story("a", [0], first_ago_s=9))

    assert expand(str(path)) == [Source(str(path), str(path), is_journal=False)]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db:5432/pay?password=secret", "postgresql://me@db:5432/pay"),
        ("postgres://db/pay", "postgres://db/pay"),
        ("sqlite:////var/j.db", "sqlite:////var/j.db"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    (source,) = expand(url)

    assert (source.name, source.address) == (shown, url)


def test_a_password_is_not_repeated_in_a_refusal() -> None:
    with pytest.raises(UsageError) as refused:
        expand("mysql://me:secret@db/pay?password=secret")

    assert "secret" not in str(refused.value)
