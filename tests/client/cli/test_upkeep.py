"""`replayfloor client prune` and `migrate`, and how the group is found by the command line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

import replayfloor.cli
from client.cli.commands import DAY_S, PATIENCE_S, Place, finish, lose_answer, pay, run
from client.loopback import Loopback
from replayfloor.client import OutcomeUnknown
from replayfloor.core.journal import OperationState

PROJECT = Path(__file__).resolve().parents[3]


def left(place: Place) -> list[str]:
    """Return the ids of every operation in the journal."""
    with place.opened() as journal:
        return [entry.operation_id for entry in journal.history()]


def test_what_was_finished_long_ago_is_removed_and_nothing_else(
    place: Place, loopback: Loopback
) -> None:
    finish(place, loopback, "old", age_s=40 * DAY_S)
    finish(place, loopback, "young", age_s=30 * DAY_S)
    lose_answer(place, loopback, "open", age_s=40 * DAY_S)
    lose_answer(place, loopback, "unknown", age_s=40 * DAY_S)
    with place.client(age_s=38 * DAY_S) as client, pytest.raises(OutcomeUnknown):
        pay(client, loopback.url(), "unknown")

    tried = run("prune", place.url, "--dry-run")
    assert left(place) == ["old", "open", "unknown", "young"]
    done = run("prune", place.url)

    assert (tried.code, done.code) == (0, 0)
    assert tried.text == "Would remove 1 finished operations that ended more than 35 d ago.\n"
    assert done.text == "Removed 1 finished operations that ended more than 35 d ago.\n"
    assert left(place) == ["open", "unknown", "young"]


def test_a_key_that_could_still_be_replayed_stays_however_little_is_to_be_kept(
    place: Place, loopback: Loopback
) -> None:
    finish(place, loopback, "fresh")
    finish(place, loopback, "past", age_s=2 * DAY_S)

    done = run("prune", place.url, "--keep", "0s")

    assert done.text.startswith("Removed 1 ")
    assert left(place) == ["fresh"]


@pytest.mark.parametrize(
    ("keep", "removed"), [("10d", 0), ("9d", 1), ("200h", 1), ("2w", 0), ("1w", 1), ("11520m", 1)]
)
def test_lengths_of_time_are_read(
    keep: str, removed: int, place: Place, loopback: Loopback
) -> None:
    finish(place, loopback, "old", age_s=9.99 * DAY_S)

    assert run("prune", place.url, "--keep", keep, "--dry-run").text.startswith(
        f"Would remove {removed} "
    )


@pytest.mark.parametrize("keep", ["", "7", "d", "-1d", "1.5d", "1 d", "7days", "999999999w", "inf"])
def test_what_is_no_length_of_time_removes_nothing(
    keep: str, place: Place, loopback: Loopback
) -> None:
    finish(place, loopback, "old", age_s=40 * DAY_S)

    assert run("prune", place.url, f"--keep={keep}").code == 2

    assert left(place) == ["old"]


def test_sqlite_needs_no_migration_and_none_is_made(tmp_path: Path) -> None:
    done = run("migrate", f"sqlite:///{tmp_path}/new.db")

    assert done.code == 0
    assert "nothing to do" in done.text
    assert list(tmp_path.iterdir()) == []
    assert run("migrate", "mysql://u:s3cret@h/d").code == 2
    assert "s3cret" not in run("migrate", "mysql://u:s3cret@h/d").err


# -- the group among the others -------------------------------------------------------------------


def entries() -> list[EntryPoint]:
    """Return what the project says about its commands, whatever is installed here."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    group = project["entry-points"][replayfloor.cli.GROUP]
    return [EntryPoint(name, value, replayfloor.cli.GROUP) for name, value in group.items()]


@pytest.mark.parametrize(
    "words",
    [("client", "pending"), ("client", "show"), ("client", "migrate"), ("receipts", "list")],
)
def test_the_command_line_has_the_commands_of_both_sides(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayfloor.cli, "entry_points", lambda group: entries())

    done = CliRunner().invoke(replayfloor.cli.command(), [*words, "--help"])

    assert done.exit_code == 0


def test_migrate_of_the_server_is_another_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayfloor.cli, "entry_points", lambda group: entries())
    application = replayfloor.cli.command()

    helps = [CliRunner().invoke(application, [*words, "--help"]).output for words in (
        ("migrate",), ("client", "migrate"),
    )]  # fmt: skip

    assert "the schema `replayfloor`" in " ".join(helps[0].split())
    assert "the journal's table" in " ".join(helps[1].split())


WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from importlib.metadata import EntryPoint
import replayfloor.cli
made = [EntryPoint(n, f"replayfloor.{n}.cli:app", "g") for n in sys.argv[2].split(",")]
replayfloor.cli.entry_points = lambda group: made
replayfloor.cli.command()(sys.argv[3:], standalone_mode=True)
"""


def without(modules: str, sides: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of some sides in a process that cannot import some modules."""
    command = [sys.executable, "-c", WITHOUT, modules, sides, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_without_the_libraries_of_the_client_the_other_commands_stay() -> None:
    done = without("httpx,httpx2,httpcore,tenacity", "client,server", "migrate", "sqlite:///x")

    assert done.returncode == 0, done.stderr


def test_without_an_http_library_the_journal_can_be_looked_at_and_settled(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "invoice-1")
    sending = ("invoice-1", "--quoted", "--body", "/dev/null")
    settling = ("invoice-1", "--executed", "--note", "n")
    missing = "httpx,httpx2,httpcore"

    sent = without(missing, "client", "client", "resume", place.url, *sending)
    closed = without(missing, "client", "client", "close", place.url, *settling)

    assert sent.returncode == 2
    assert "pip install" in sent.stderr
    assert "Traceback" not in sent.stderr
    assert closed.returncode == 0, closed.stderr
    assert place.entry("invoice-1").attempts == 1
    assert place.state("invoice-1") is OperationState.SETTLED
