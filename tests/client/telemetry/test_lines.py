"""The file of JSON lines: whole lines, whoever else writes to it, and whatever happens to it."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.clients import PATIENCE_S, START_NS, Setup, named
from client.loopback import DROP, OK, Loopback, Reply
from client.telemetry.observed import every_event, facts
from replayfloor.client.events import AttemptLeft, AttemptStarted
from replayfloor.client.telemetry import JSONLines
from replayfloor.core.errors import ConfigurationError

WRITERS = 4
LINES_EACH = 500

WRITER = """
import sys
from replayfloor.client.events import AttemptStarted
from replayfloor.client.telemetry import JSONLines
from replayfloor.core.outcome import Outcome

sink = JSONLines(sys.argv[1])
print("ready", flush=True)
sys.stdin.read(1)
for attempt in range(int(sys.argv[3])):
    sink(AttemptStarted(
        at_ns=0, provider="p", namespace="n", operation_id=sys.argv[2] * 3000, method="POST",
        origin="https://api.example.com", attempt=attempt, elapsed_s=0.0, retention_s=None,
        outcome=Outcome.NOT_SENT, resumed=False))
"""


def _read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_line_has_every_field_of_its_event(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    sink = JSONLines(path)
    for event in every_event():
        sink(event)

    lines = {str(line["event"]): line for line in _read(path)}
    common = {
        "v": 1,
        "call": None,
        "at_ns": START_NS,
        "provider": "provider",
        "namespace": "provider/acct_1",
        "operation_id": "invoice-1",
        "method": "POST",
        "origin": "https://api.example.com",
        "attempt": 1,
        "elapsed_s": 0.5,
        "retention_s": 86_400.0,
        "outcome": "UNKNOWN",
        "resumed": False,
        "status": None,
    }
    own: dict[str, dict[str, object]] = {
        "AttemptStarted": {},
        "AttemptLeft": {},
        "AttemptEnded": {
            "status": 503,
            "evidence": "status 503",
            "took_s": 0.25,
            "maybe_sent": True,
            "in_flight": False,
            "replayed": False,
        },
        "WaitStarted": {"wait_s": 1.5, "reason": "retry"},
        "DeadlineFence": {"begun": True},
        "ClockWentBack": {"behind_s": 3.0},
        "BudgetExhausted": {},
        "JournalFailed": {"evidence": "disk full"},
        "OperationEnded": {"ending": "unknown"},
    }
    assert lines == {name: common | {"event": name} | fields for name, fields in own.items()}


def test_the_lines_of_one_call_have_one_name_and_those_of_another_call_another(
    tmp_path: Path, loopback: Loopback
) -> None:
    path = tmp_path / "calls.jsonl"
    loopback.script(DROP, OK)
    with Setup(on_event=JSONLines(path)).client() as client:
        client.post(loopback.url(), extensions=named("invoice-1", "key-secret"))
        client.post(loopback.url(), extensions=named("invoice-2", "key-secret-too"))

    calls: dict[str, list[str]] = {}
    for line in _read(path):
        calls.setdefault(f"{line['operation_id']} {line['call']}", []).append(str(line["event"]))
    first, second = calls
    assert len({first.split()[1], second.split()[1]}) == 2
    attempt = ["AttemptStarted", "AttemptLeft", "AttemptEnded"]
    assert calls[first] == [*attempt, "WaitStarted", *attempt, "OperationEnded"]
    assert calls[second] == [*attempt, "OperationEnded"]
    assert "secret" not in path.read_text()


@pytest.mark.parametrize("operation_id", ["two\nlines", "\udcff", "\u2028", 'a"b', "é" * 300])
def test_whatever_an_operation_is_called_its_event_is_one_line(
    tmp_path: Path, operation_id: str
) -> None:
    path = tmp_path / "calls.jsonl"
    JSONLines(path)(AttemptStarted(**facts(operation_id=operation_id)))

    (line,) = _read(path)
    assert line["operation_id"] == operation_id


def test_the_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number), str(LINES_EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"!")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=PATIENCE_S)

    lines = _read(path)
    assert len(lines) == WRITERS * LINES_EACH
    for number in range(WRITERS):
        own = [line["attempt"] for line in lines if line["operation_id"] == str(number) * 3000]
        assert own == list(range(LINES_EACH))


def test_the_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    sink, together = JSONLines(path), threading.Barrier(WRITERS)

    def write(number: int) -> None:
        together.wait(PATIENCE_S)
        for attempt in range(LINES_EACH):
            sink(AttemptStarted(**facts(operation_id=str(number) * 3000, attempt=attempt)))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))

    assert len(_read(path)) == WRITERS * LINES_EACH


def test_a_file_that_was_renamed_or_removed_is_made_again(tmp_path: Path) -> None:
    path, old = tmp_path / "calls.jsonl", tmp_path / "calls.jsonl.1"
    sink = JSONLines(path)
    sink(AttemptStarted(**facts()))
    path.rename(old)
    sink(AttemptLeft(**facts()))
    assert [line["event"] for line in _read(old)] == ["AttemptStarted"]
    assert [line["event"] for line in _read(path)] == ["AttemptLeft"]

    path.unlink()
    sink(AttemptStarted(**facts()))
    assert [line["event"] for line in _read(path)] == ["AttemptStarted"]


def test_a_second_sink_appends(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    JSONLines(path)(AttemptStarted(**facts()))
    JSONLines(str(path))(AttemptLeft(**facts()))

    assert [line["event"] for line in _read(path)] == ["AttemptStarted", "AttemptLeft"]


def test_an_event_is_one_write_and_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    write = os.write

    def spy(descriptor: int, line: bytes) -> int:
        written.append(line)
        return write(descriptor, line)

    sink = JSONLines(tmp_path / "calls.jsonl")
    monkeypatch.setattr(os, "write", spy)
    before = len(os.listdir("/proc/self/fd"))
    for event in every_event():
        sink(event)

    assert len(written) == len(every_event())
    assert len(os.listdir("/proc/self/fd")) == before


def test_after_a_line_that_was_cut_off_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calls.jsonl"
    write, room = os.write, [20, 10**6, 10**6]

    def full(descriptor: int, line: bytes) -> int:
        return write(descriptor, line[: room.pop(0)])

    sink = JSONLines(path)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="only 20 of"):
        sink(AttemptStarted(**facts()))
    sink(AttemptLeft(**facts()))
    sink(AttemptLeft(**facts()))

    torn, *whole = path.read_text().splitlines()
    assert len(torn) == 20
    assert [json.loads(line)["event"] for line in whole] == ["AttemptLeft"] * 2


def test_a_line_that_cannot_be_written_is_logged_and_the_call_goes_on(
    tmp_path: Path, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    sink = JSONLines(folder / "calls.jsonl")
    (folder / "calls.jsonl").unlink()
    folder.rmdir()
    loopback.script(Reply(503), OK)
    with caplog.at_level(logging.ERROR), Setup(on_event=sink).client() as client:
        assert client.post(loopback.url()).status_code == 201

    # Three per attempt, the wait and the end: each lost line is told, and told once.
    assert caplog.messages == ["on_event raised"] * 8


def test_a_path_that_cannot_be_appended_to_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be appended to"):
        JSONLines(tmp_path / "absent" / "calls.jsonl")


def test_the_umask_decides_who_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        JSONLines(tmp_path / "calls.jsonl")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "calls.jsonl").stat().st_mode) == 0o640
