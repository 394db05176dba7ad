"""The demo, run as its users run it, keeps its promises, and notices when one is broken."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo"

PAYMENTS = 40
# The demo promises a minute; it takes about ten seconds.
BEGINS_WITHIN_S = 10.0
ENDS_WITHIN_S = 60.0
GONE_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: what it said, and the summary it wrote."""

    status: int
    said: str
    summary: dict[str, object]

    def section(self, name: str) -> dict[str, object]:
        """Return an object of the summary."""
        section = self.summary[name]
        assert isinstance(section, dict)
        return section


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """The only directory the demo may write to; its processes are known by its name."""
    private = tmp_path / "private"
    private.mkdir()
    return private


@pytest.fixture
def payments(tmp_path: Path) -> Path:
    """A file of some payments."""
    path = tmp_path / "payments.jsonl"
    lines = [
        {"id": f"inv-2026-{number:05d}", "amount_minor": 100 + number, "currency": "EUR"}
        for number in range(PAYMENTS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _command(payments: Path, *options: str) -> list[str]:
    return [sys.executable, str(DEMO), "--payments", str(payments), *options]


def _environment(private: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(private), "HOME": "/nonexistent"}


def _run(private: Path, payments: Path, *options: str) -> Run:
    written = payments.parent / "summary.json"
    done = subprocess.run(
        _command(payments, "--json", str(written), *options),
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        env=_environment(private),
        cwd=payments.parent,
        umask=0o077,
    )
    summary = json.loads(written.read_text()) if written.exists() else {}
    return Run(done.returncode, done.stdout + done.stderr, summary)


def _processes(private: Path) -> list[str]:
    """Return the command lines of the processes that the demo with this directory started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(private).encode() in environment:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def _left_after(private: Path, patience_s: float) -> Sequence[str]:
    deadline = time.monotonic() + patience_s
    while (left := _processes(private)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _check(run: Run, private: Path) -> None:
    faults, ledger = run.section("faults"), run.section("ledger")

    assert run.status == 0, run.said
    assert "charged exactly once" in run.said
    assert run.summary["ok"] is True
    assert run.summary["answered"] == run.summary["payments"] == ledger["rows"] == PAYMENTS
    assert ledger["twice"] == ledger["lost"] == ledger["foreign"] == []
    assert run.summary["resumed"]
    assert all(faults[name] for name in ("replies_lost", "duplicated", "refused", "cut_by_kills"))
    assert (faults["server_kills"], faults["sender_kills"]) == (2, 1)
    assert _processes(private) == []
    assert list(private.iterdir()) == []


def test_every_payment_is_charged_once_on_sqlite(private: Path, payments: Path) -> None:
    _check(_run(private, payments), private)


@pytest.mark.slow
def test_every_payment_is_charged_once_on_postgres_and_redis(
    private: Path, payments: Path, postgres_url: str, redis_url: str
) -> None:
    _check(_run(private, payments, "--postgres", postgres_url, "--redis", redis_url), private)

    with psycopg.connect(postgres_url) as connection:
        left = connection.execute(
            "select nspname from pg_namespace where nspname like 'replayfloor_demo%'"
        ).fetchall()
    assert left == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_demo_that_is_stopped_leaves_nothing(private: Path, payments: Path, name: str) -> None:
    with _begun(private, payments) as demo:
        demo.send_signal(signal.Signals[name])

        assert demo.wait(ENDS_WITHIN_S) == 130
    assert _processes(private) == []
    assert list(private.iterdir()) == []


def test_a_demo_that_is_killed_takes_its_processes_along(private: Path, payments: Path) -> None:
    with _begun(private, payments) as demo:
        demo.kill()
        demo.wait(ENDS_WITHIN_S)

    assert _left_after(private, GONE_WITHIN_S) == []


def _begun(private: Path, payments: Path) -> subprocess.Popen[str]:
    """Start a demo; return it when server and sender are at work."""
    demo = subprocess.Popen(
        _command(payments), stdout=subprocess.PIPE, text=True, env=_environment(private)
    )
    assert demo.stdout is not None
    demo.stdout.readline()
    # One of them may just be the one that the demo has killed and starts again.
    deadline = time.monotonic() + BEGINS_WITHIN_S
    while len(_processes(private)) != 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return demo


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("not JSON", "not JSON"),
        ('["a"]', "JSON object"),
        ('{"amount_minor": 1, "currency": "EUR"}', '"id" is missing'),
        ('{"id": "b", "amount_minor": 1.5, "currency": "EUR"}', '"amount_minor"'),
        ('{"id": "b", "amount_minor": 1, "currency": "euro"}', '"currency"'),
        ('{"id": "inv-2026-00000", "amount_minor": 1, "currency": "EUR"}', "used before"),
    ],
)
def test_a_wrong_line_is_named(
    monkeypatch: pytest.MonkeyPatch, payments: Path, line: str, complaint: str
) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from payments import PaymentsInvalid, load_payments

    payments.write_text(payments.read_text() + line + "\n")

    with pytest.raises(PaymentsInvalid) as raised:
        load_payments(payments)
    assert f"line {PAYMENTS + 1}: " in str(raised.value)
    assert complaint in str(raised.value)


def test_a_file_that_cannot_be_used_is_not_run(private: Path, payments: Path) -> None:
    payments.write_text("\n\n{}\n")

    run = _run(private, payments)

    assert run.status == 2
    assert "line 3" in run.said
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(
    ("charged", "complaint"),
    [
        (["a", "b", "b"], "1 payments charged more than once: b"),
        (["a"], "1 payments not in the ledger: b"),
        (["a", "b", "c"], "1 payments in the ledger and not in the file: c"),
        (["a", "b"], None),
    ],
)
def test_a_ledger_that_breaks_the_promise_ends_in_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, charged: list[str], complaint: str | None
) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from ledger import SQLiteLedger, judge
    from report import Faults, Summary
    from run import exit_status
    from tally import tail

    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table ledger (payment_id text)")
        database.executemany("insert into ledger values (?)", [(each,) for each in charged])
    database.close()

    summary = Summary(
        payments=2,
        answered=2,
        unanswered=(),
        failures=(),
        attempts=2,
        conflicts=0,
        replayed=0,
        resumed=0,
        ledger=judge(["a", "b"], SQLiteLedger(path).charged()),
        faults=Faults(
            replies_lost=0,
            duplicated=0,
            refused=0,
            server_kills=0,
            sender_kills=0,
            cut_by_kills=0,
            server_down=0,
        ),
        tail=tail([]),
        duration_s=0.0,
    )

    assert summary.problems == ((complaint,) if complaint else ())
    assert exit_status(summary) == (1 if complaint else 0)


def test_an_unanswered_payment_ends_in_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from messages import Kind, Message
    from tally import Tally

    tally = Tally(["a", "b"])
    tally.hear(Message(kind=Kind.ANSWERED, payment_id="a", status=201))

    assert tally.unanswered == ("b",)


def test_percentiles_are_values_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from tally import tail

    hundred = tail([float(number) for number in range(1, 101)])

    assert (hundred.p50_s, hundred.p90_s, hundred.p99_s, hundred.max_s) == (50, 90, 99, 100)
    assert tail([3.0]).p50_s == 3.0
