"""The command: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import Result

from client.tail.invented import AT, AT_TEXT, MARGIN_NS, S, entry, fill, line, story, write
from replayfloor.client.journal import open_journal
from replayfloor.core.journal import OperationState

Run = Callable[..., Result]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Nine operations that were sent once, one that was sent again after an hour."""
    told = [each for n in range(9) for each in story(f"op{n}", [0], first_ago_s=9_000)]
    return write(tmp_path / "l.jsonl", [*told, *story("slow", [0, 3_600], first_ago_s=9_000)])


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """One operation that has been open for 20 of 24 hours."""
    return write(tmp_path / "s.jsonl", story("stuck", [0, 60], first_ago_s=72_000, ending=None))


def rows(result: Result) -> list[list[str]]:
    return [text.split() for text in result.stdout.splitlines() if text.strip()]


def test_a_row_shows_the_figures_of_a_provider(report: Run, lines: Path) -> None:
    result = report(lines)

    assert result.exit_code == 0
    figures = "10 1 11 0 s 0 s 1 h 1 h 0 0 24 h 4.17 % 4.17 %"
    assert rows(result)[-1] == ["shop", *figures.split()]


def test_what_is_open_is_shown_marked_and_listed(report: Run, lines: Path, stuck: Path) -> None:
    result = report(lines, stuck)

    told = result.stdout
    assert ">= 20 h" in told
    assert "1 (20 h)" in told
    assert "83.3 % !" in told
    assert "shop: 1 operation open past 50 % of the retention. Call again with" in told
    assert "stuck  20 h old  2 attempts  send deadline not in the lines  outcome unknown" in told


def test_a_journal_tells_the_send_deadline(report: Run, tmp_path: Path) -> None:
    open_ = entry("stuck", first_ago_s=72_000, state=OperationState.OPEN)
    closed = entry("lost", first_ago_s=10**6, state=OperationState.UNKNOWN_FINAL)
    with closing(open_journal(f"sqlite:///{tmp_path / 'j.db'}")) as journal:
        fill(journal, [open_, closed])

    told = report(f"sqlite:///{tmp_path / 'j.db'}").stdout

    assert open_.send_deadline_ns == AT - 72_000 * S + 86_400 * S - MARGIN_NS
    assert "stuck  20 h old  1 attempt  send deadline 2030-03-17 21:17:52Z" in told
    assert (
        "shop: 1 operation closed without an answer. Never send it again, neither with its" in told
    )
    assert "lost  11 d 13 h old" in told


def test_no_more_are_listed_than_asked_for(report: Run, tmp_path: Path) -> None:
    told = [
        text for n in range(5) for text in story(f"op{n}", [0], first_ago_s=70_000 + n, ending=None)
    ]
    result = report("--list", 2, write(tmp_path / "l", told))

    assert "5 operations open past" in result.stdout
    assert [n for n in range(5) if f"op{n}" in result.stdout] == [3, 4]
    assert "and 3 more, younger ones" in result.stdout


def test_nothing_read_says_so(report: Run, tmp_path: Path) -> None:
    result = report("--check", write(tmp_path / "l", []))

    assert (result.exit_code, result.stdout) == (0, "No operations in what was read.\n")


def test_lines_come_from_stdin_too(report: Run, lines: Path) -> None:
    assert report("-", stdin=lines.read_bytes()).stdout == report(lines).stdout


def test_namespaces_have_rows_of_their_own(report: Run, tmp_path: Path) -> None:
    told = [
        line("AttemptLeft", "a", first_ago_s=9, namespace=f"shop/{each}", outcome="DEFINITIVE")
        for each in ("live", "test")
    ]
    path = write(tmp_path / "l", told)

    assert [row[:3] for row in rows(report("--by", "namespace", path))[-2:]] == [
        ["shop", "/", "shop/live"],
        ["shop", "/", "shop/test"],
    ]
    assert rows(report(path))[-1][:2] == ["shop", "2"]


def test_skipped_lines_are_told_on_stderr_and_nowhere_else(report: Run, lines: Path) -> None:
    whole = report(lines).stdout
    with lines.open("a") as file:
        file.write('nonsense\n{"v": 1, "ev')

    result = report(lines)

    assert result.exit_code == 0
    assert result.stdout == whole
    assert result.stderr.replace("\n", "") == (
        f"{lines}: 2 lines skipped because they are no event, the last of them cut off"
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 0),
        (["--check"], 1),
        (["--check", "--share", "0.8"], 1),
        (["--check", "--share", "0.9"], 0),
        (["--share", "0.1"], 0),
    ],
)
def test_a_check_has_status_1_past_the_share(
    report: Run, stuck: Path, options: list[str], status: int
) -> None:
    result = report(*options, stuck)

    assert result.exit_code == status
    assert ("passes" in result.stderr) == (status == 1)


def test_a_check_says_what_it_refuses(report: Run, lines: Path, stuck: Path) -> None:
    result = report("--check", "--share", "0.04", lines, stuck)

    assert result.stderr.splitlines() == [
        f"shop: {name}, >= 20 h, is 83.3 % of the retention and passes 4 % of the retention of 24 h"
        for name in ("p99", "the largest")
    ]


def test_machines_get_one_object(report: Run, lines: Path, stuck: Path) -> None:
    result = report("--json", "--check", lines, stuck)

    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (told["v"], told["at_ns"], told["check"]["passed"]) == (1, AT, False)
    assert len(told["check"]["refused"]) == 2
    (group,) = told["groups"]
    assert (group["operations"], group["attempts"], group["open"]["count"]) == (11, 13, 1)
    assert group["p50"] == {"s": 0.0, "at_least": False}
    assert group["p90"] == {"s": 3_600.0, "at_least": False}
    assert group["largest"] == {"s": 72_000.0, "at_least": True}
    assert group["used"]["largest"] == pytest.approx(72_000 / 86_400)
    (risk,) = group["at_risk"]
    assert (risk["danger"], risk["count"]) == ("old", 1)
    assert risk["oldest"][0]["operation_id"] == "stuck"


@pytest.mark.parametrize(
    ("since", "operations"),
    [
        ("150min", 11),
        ("149min", 2),
        ("2h", 2),
        ("1h", 1),
        ("1w", 11),
        ("2030-03-17T15:16:40Z", 11),
        ("2030-03-17T16:46:40+01:00", 2),
        ("2030-03-18", 1),
    ],
)
def test_since_is_a_period_or_a_moment(
    report: Run, lines: Path, stuck: Path, since: str, operations: int
) -> None:
    result = report("--json", "--since", since, lines, stuck)

    assert json.loads(result.stdout)["groups"][0]["operations"] == operations


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["sqlite:///nowhere.db"], "there is no journal at nowhere.db"),
        (["."], "Is a directory"),
        (["--since", "yesterday", "-"], "'yesterday' is no moment"),
        (["memory:"], "cannot be reported on"),
    ],
)
def test_what_cannot_be_reported_has_status_2(report: Run, arguments: list[str], said: str) -> None:
    result = report(*arguments)

    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_later_version_has_status_2_and_says_so(report: Run, tmp_path: Path) -> None:
    result = report(write(tmp_path / "l", [line("AttemptLeft", "a", first_ago_s=9, v=2)]))

    assert result.exit_code == 2
    assert "line 1: a line has version 2" in result.stderr.replace("\n", " ")


def test_a_page_that_cannot_be_written_has_status_2(
    report: Run, lines: Path, tmp_path: Path
) -> None:
    assert report("--html", tmp_path / "nowhere" / "page.html", lines).exit_code == 2


def test_a_name_from_outside_is_never_obeyed_by_the_terminal(report: Run, tmp_path: Path) -> None:
    evil = "\x1b[2J[red]boo[/red]\u202e:warning:"
    lines = story(evil, [0], first_ago_s=72_000, ending=None, provider=evil)
    path = write(tmp_path / "l", lines)

    told = report(path).stdout

    assert "\x1b" not in told
    assert "\u202e" not in told
    # In the table, in the heading of what is at risk, and as the operation itself.
    assert told.count(r"\x1b[2J[red]boo[/red]\u202e:warning:") == 3


def test_it_runs_as_a_process_of_its_own(lines: Path, stuck: Path) -> None:
    code = "from replayfloor.client.tail.cli import tail_app; tail_app()"
    arguments = [sys.executable, "-c", code, "report", "--at", AT_TEXT, "--check", "-", str(stuck)]

    ran = subprocess.run(
        arguments, input=lines.read_text(), capture_output=True, text=True, check=False
    )

    assert ran.returncode == 1
    assert "shop" in ran.stdout
    assert "passes 50 % of the retention of 24 h" in ran.stderr
    # Piped, every row is one line, however many columns the terminal has.
    assert len([text for text in ran.stdout.splitlines() if text.startswith("shop ")]) == 1
