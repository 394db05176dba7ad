"""`replayfloor retention status` and `accept`: what they show, and what they change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replayfloor.retention import load_inbound
from replayfloor.server.cli_policy import app
from replayfloor.server.stores.policies_read import noted_policies

HOOKS = """
[inbound.hooks]
planned_outage = "12h"
senders = ["shop"]

[inbound.quick]
client_retry_budget = "60s"

[senders.shop]
automatic_retry = "72h"
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind that was told nothing."""
    if request.param == "postgres":
        return str(request.getfixturevalue("emptied_url"))
    return f"sqlite:///{tmp_path / 'receipts.db'}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two policies, of 84 hours and of a minute."""
    path = tmp_path / "replayfloor.toml"
    path.write_text(HOOKS)
    return path


def run(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, words, env={"COLUMNS": "300"})


def test_a_policy_is_declared_and_shown(url: str, file: Path) -> None:
    done = run("accept", url, "--policy", f"{file}:hooks")
    again = run("accept", url, "--policy", f"{file}:hooks")
    shown = run("status", url, "--text")

    assert (done.exit_code, again.exit_code, shown.exit_code) == (0, 0, 0)
    assert "84 h: declared." in done.output
    assert "84 h: declared already." in again.output
    policy = load_inbound(file, "hooks")
    for words in ("default", "84 h", policy.digest[:12], '"shop" automatic_retry 259200 s'):
        assert words in shown.output


def test_a_shorter_one_is_refused_until_it_is_accepted(url: str, file: Path) -> None:
    run("accept", url, "--policy", f"{file}:hooks")
    refused = run("accept", url, "--policy", f"{file}:quick")
    kept = noted_policies(url)
    accepted = run("accept", url, "--policy", f"{file}:quick", "--accept-shorter")

    assert (refused.exit_code, accepted.exit_code) == (1, 0)
    assert "--accept-shorter" in refused.output
    assert [each.retention_s for each in kept] == [84 * 3600]
    assert "accepted" in accepted.output
    assert [each.retention_s for each in noted_policies(url)] == [60]


def test_a_plain_retention_and_a_namespace_can_be_declared(url: str, file: Path) -> None:
    done = run("accept", url, "--retention", "100h", "--namespace", "other")
    longer = run("accept", url, "--retention", "100h", "--policy", f"{file}:hooks")
    shorter = run("accept", url, "--retention", "10h", "--policy", f"{file}:hooks")
    report = json.loads(run("status", url, "--json").output)

    assert (done.exit_code, longer.exit_code, shorter.exit_code) == (0, 0, 2)
    assert "below the floor" in shorter.output
    assert [(each["namespace"], each["retention_s"]) for each in report] == [
        ("default", 360000.0),
        ("other", 360000.0),
    ]
    assert report[0]["digest"] != report[1]["digest"]


def test_without_a_choice_nothing_is_declared(url: str) -> None:
    assert run("accept", url).exit_code == 2


@pytest.mark.parametrize("name", [None, "hooks"])
def test_a_file_with_one_policy_needs_no_name(tmp_path: Path, name: str | None) -> None:
    file = tmp_path / "one:policy.toml"
    file.write_text('[inbound.hooks]\nclient_retry_budget = "60s"\n')
    spec = str(file) if name is None else f"{file}:{name}"
    url = f"sqlite:///{tmp_path / 'receipts.db'}"

    assert run("accept", url, "--policy", spec).exit_code == 0
    assert [each.retention_s for each in noted_policies(url)] == [60]


def test_a_database_that_was_told_nothing_is_status_1(postgres_url: str, tmp_path: Path) -> None:
    for address, words in (
        (postgres_url, "replayfloor migrate"),
        (f"sqlite:///{tmp_path / 'none.db'}", "no file"),
        ("postgresql://nobody@127.0.0.1:1/none", "Postgres"),
    ):
        done = run("status", address)
        assert done.exit_code != 0
        assert words in done.output


def test_what_is_stored_is_shown_in_a_way_that_is_safe_to_look_at(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'receipts.db'}"
    run("accept", url, "--retention", "1h", "--namespace", "\x1b[31mred")

    assert "\x1b" not in run("status", url, "--text").output


def test_each_help_names_the_other_command() -> None:
    assert "replayfloor policy" in run("--help").output
