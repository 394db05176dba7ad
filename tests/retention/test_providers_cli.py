"""`replayfloor providers …`: what it prints, what it exits with, and that it hides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replayfloor.retention.cli_providers import app
from replayfloor.retention.providers import providers

OWN = """
[providers.inbound.paypal]
manual_resend = { value = "30d", source = "ticket 4711", read_on = 2026-11-01 }

[providers.outbound.ledger]
title = "Our\\u001b[31m ledger"
retention = "30d"
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own.toml"
    file.write_text(OWN, encoding="utf-8")
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def line(result: Result, *starts: str) -> str:
    found = [each for each in result.output.splitlines() if each.split()[:2] == list(starts)]
    assert len(found) == 1
    return found[0]


def test_the_list_has_every_row_with_its_figures_and_what_follows() -> None:
    result = run("list")

    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(providers()) + 1
    stripe = line(result, "inbound", "stripe")
    assert "by itself 3 d, by hand 30 d" in stripe
    assert "keep 30 d" in stripe
    assert "conflict" in stripe
    assert "by hand unknown (it exists)" in line(result, "inbound", "paypal")
    assert "keep at least 3 d" in line(result, "inbound", "paypal")
    assert "rely on unknown: choose" in line(result, "outbound", "square")
    assert "not solid" in line(result, "outbound", "shopify")


@pytest.mark.parametrize("direction", ["outbound", "inbound", "broker"])
def test_the_list_can_be_one_of_a_direction(direction: str) -> None:
    result = run("list", "--direction", direction)

    firsts = {each.split()[0] for each in result.output.splitlines()[1:]}
    assert firsts == {direction}


def test_show_has_sources_dates_confidence_conflicts_and_what_follows() -> None:
    result = run("show", "square", "--direction", "inbound")

    assert result.exit_code == 0
    for part in (
        "inbound/square: Square webhooks (square.toml)",
        "keeps what it has seen for at least 28 d (manual_resend)",
        "auto_retry: 24 h, documented [",
        "CONFLICT of the sources:",
        "72 h: an older version, with 10 seconds to answer in",
        "safe side: 72 h:",
        "(read on: 2025-08-19)",
        "(read on: unknown)",
        "https://developer.squareup.com/docs/webhooks/troubleshooting",
        "unknown: dedupe, attempt_time",
    ):
        assert part in result.output


def test_show_has_both_directions_of_a_name() -> None:
    output = run("show", "adyen").output

    assert "outbound/adyen" in output
    assert "inbound/adyen" in output
    assert "LOWER BOUND" in output
    assert "rely on a key for 7 d" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "strpe"), "did you mean 'stripe'"),
        (("list", "--direction", "up"), "is no direction"),
        (("check", "--older-than", "half a year"), "is no duration"),
        (("check", "--at", "tomorrow"), "is no day"),
        (("check", "strpe"), "did you mean 'stripe'"),
        (("list", "--file", "none.toml"), "no such file"),
    ],
)
def test_what_cannot_be_carried_out_is_told(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert not result.stdout


def test_check_lists_what_is_too_old_or_has_no_date_and_exits_with_1() -> None:
    result = run("check", "svix", "stripe", "--direction", "inbound", "--at", "2027-06-01")

    assert result.exit_code == 1
    assert "284 d" in line(result, "inbound", "svix")
    assert "no date" in line(result, "inbound", "stripe")
    assert "auto_retry" in line(result, "inbound", "stripe")


def test_check_is_content_with_what_was_read_lately() -> None:
    result = run("check", "svix", "--direction", "inbound", "--at", "2026-11-30")
    shorter = run(
        "check", "svix", "--direction", "inbound", "--at", "2026-11-30", "--older-than", "30d"
    )

    assert (result.exit_code, shorter.exit_code) == (0, 1)
    assert "Every figure was read within 180 d" in result.output


def test_the_users_own_is_listed_shown_and_checked(own: str) -> None:
    listed = run("list", "--file", own)
    paypal = run("show", "paypal", "--direction", "inbound", "--file", own).output
    checked = run("check", "ledger", "--file", own, "--at", "2026-11-30")

    assert "yours" in line(listed, "outbound", "ledger")
    assert "by hand 30 d" in line(listed, "inbound", "paypal")
    assert "yours" in line(listed, "inbound", "paypal")
    assert "manual_resend: 30 d, given, YOURS" in paypal
    assert "the catalogue says: unknown (it exists)" in paypal
    assert "ticket 4711 (read on: 2026-11-01)" in paypal
    assert checked.exit_code == 1
    assert "retention [yours]" in checked.output


def test_what_a_file_says_cannot_command_the_terminal(own: str) -> None:
    output = run("show", "ledger", "--file", own).output

    assert "\x1b" not in output
    assert "\\x1b[31m ledger" in output


def test_the_file_of_the_project_is_found(own: str, tmp_path: Path) -> None:
    (tmp_path / "replayfloor.toml").write_text(Path(own).read_text("utf-8"), encoding="utf-8")

    assert run("show", "ledger").exit_code == 0


def test_json_has_everything(own: str) -> None:
    (square,) = json.loads(run("show", "square", "--direction", "inbound", "--json").output)
    rows = json.loads(run("list", "--json", "--file", own).output)
    overdue = json.loads(
        run("check", "svix", "--at", "2027-06-01", "--direction", "inbound", "--json").output
    )

    retry = square["figures"]["auto_retry"]
    assert (retry["seconds"], retry["safe_s"]) == (86_400.0, 259_200.0)
    assert [claim["value"] for claim in retry["conflict"]["claims"]] == ["PT24H", "PT72H"]
    assert square["derived"] == {"keep_at_least_s": 2_419_200.0, "is_lower_bound": False}
    assert len(rows) == len(providers()) + 1
    (ledger,) = [row for row in rows if row["name"] == "ledger"]
    assert ledger["yours"]
    (changed,) = [row for row in rows if (row["name"], row["direction"]) == ("paypal", "inbound")]
    assert not changed["figures"]["manual_resend"]["published"]["solid"]
    assert {each["figure"] for each in overdue} >= {"auto_retry", "event_id"}
    assert {each["age_days"] for each in overdue} == {284}
