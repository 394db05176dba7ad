"""What docs/retention.md says: its file is read, its commands and its code are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from replayfloor.retention import TermKind, load_policies
from replayfloor.retention.cli import app
from replayfloor.retention.parties import SENDER_TERMS
from replayfloor.retention.toml_policies import INBOUND_TERMS
from retention.policy_cli import Folder
from support.sources import ROOT

PAGE = (ROOT / "docs" / "retention.md").read_text(encoding="utf-8")
START_S = 60.0


def blocks(language: str) -> list[str]:
    """Return the code of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def documented(folder: Folder) -> Folder:
    """The folder with the page's file in it."""
    (file,) = blocks("toml")
    folder.write(file)
    return folder


def test_the_file_is_taken_and_gives_the_numbers_of_the_page(documented: Folder) -> None:
    policies = load_policies(documented.path)

    assert policies.inbound["hooks"].floor.formula == "max(3 d, 30 d) + 4 d + 1 d = 35 d"
    assert policies.inbound["jobs"].floor.formula == ("max(30 s, 120 s) + 5 min + 5 min = 12 min")
    policies.outbound["refunds"].require_plan()
    assert documented.policy("check", "--as-of", "2026-11-30").code == 0


def test_the_command_prints_what_the_page_shows(documented: Folder) -> None:
    (session,) = blocks("console")
    command, shown = session.split("\n", 1)
    name, group, *arguments = shlex.split(command.removeprefix("$ "))

    done = documented.policy(*arguments)

    assert (name, group, done.code) == ("replayfloor", "policy", 0)
    assert [line.rstrip() for line in done.lines] == shown.splitlines()


def test_the_code_prints_what_the_page_shows(documented: Folder) -> None:
    (expected,) = blocks("text")
    (program,) = [block for block in blocks("python") if "print" in block]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=documented.path,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=True,
    )

    assert done.stdout == expected


def test_the_test_of_the_page_passes_with_the_file_of_the_page(documented: Folder) -> None:
    (test,) = [block for block in blocks("python") if "def test_" in block]
    documented.write(test, "test_page.py")
    documented.write("[pytest]\nreplayfloor_policy = hooks\n", "pytest.ini")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "replayfloor.testing.pytest_plugin",
         "-p", "no:cacheprovider"],
        cwd=documented.path, capture_output=True, text=True, timeout=START_S, check=False,
        # Other plugins of this machine take longer to load than all of this takes.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip

    assert "1 passed" in done.stdout, done.stdout


def test_every_term_is_in_the_table() -> None:
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))

    assert rows == {kind.value for kind in (*SENDER_TERMS, *INBOUND_TERMS)}
    assert TermKind.RETENTION.value in rows


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`replayfloor ([a-z]+ [a-z]+)", PAGE))))
def test_every_command_it_names_exists(command: str) -> None:
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
