"""`replayfloor policy check`: what is wrong, where, and by exit status."""

from __future__ import annotations

from datetime import date

import pytest

from replayfloor.retention import parse_policies
from replayfloor.retention.checking import Fault, check_policies
from retention.policy_cli import HOOKS, REFUNDS, Folder

NOVEMBER = ("--as-of", "2026-11-30")
FRESH = HOOKS.replace("2025-01-31", "2026-10-31")


def test_a_policy_that_is_derived_and_fresh_passes(folder: Folder) -> None:
    folder.write(FRESH + REFUNDS)

    done = folder.policy("check", *NOVEMBER)

    assert (done.code, done.text) == (0, "replayfloor.toml: nothing is wrong with 2 policies\n")
    assert folder.policy("check", *NOVEMBER, "--json").data == []


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        (FRESH + 'retention = "34d"\n', 8, Fault.BELOW_FLOOR),
        (FRESH + 'planned_outage = "unknown"\n', 5, Fault.UNKNOWN),
        (FRESH + REFUNDS.replace("20h", "24h"), 9, Fault.PLAN_TOO_LONG),
        (FRESH + 'planned_outage = "3650d"\n', 5, Fault.NOT_DERIVABLE),
        (HOOKS, 3, Fault.OLD_FIGURE),
    ],
)
def test_a_fault_is_told_on_its_line_and_by_status(
    folder: Folder, text: str, line: int, fault: Fault
) -> None:
    folder.write(text)

    done = folder.policy("check", *NOVEMBER)
    (found,) = folder.policy("check", *NOVEMBER, "--json").data

    assert done.code == 1
    assert len(done.lines) == 1
    assert done.lines[0].startswith(f"replayfloor.toml:{line}: ")
    assert done.lines[0].endswith(f" [{fault.value}]")
    assert (found["fault"], found["place"]) == (fault.value, f"replayfloor.toml:{line}")


def test_a_figure_is_old_a_day_after_the_limit(folder: Folder) -> None:
    folder.write(FRESH)

    assert folder.policy("check", "--as-of", "2026-11-29", "--older-than", "60").code == 0
    done = folder.policy("check", "--as-of", "2026-11-30", "--older-than", "60")

    assert done.code == 1
    assert "shop.example" in done.text
    assert "shop: automatic retry 3 d: read it again: " in done.text
    assert "read 2026-09-30" in done.text


def test_somebody_elses_figure_without_a_day_is_old_and_ones_own_is_not() -> None:
    text = """\
[inbound.p]
client_retry_budget = "1h"
broker_redelivery = { value = "2h", source = "a page", confidence = "documented" }
planned_outage = { value = "2h", source = "runbook" }
"""
    findings = check_policies(
        parse_policies(text, "f"), today=date(2026, 11, 30), older_than_days=10_000
    )

    assert [(each.fault, each.place) for each in findings] == [(Fault.OLD_FIGURE, "f:3")]
    assert "a page, read on a day that is not known (documented)" in findings[0].message


def test_a_figure_of_the_catalogue_is_told_where_the_policy_names_it(folder: Folder) -> None:
    folder.write(
        '[inbound.hooks]\nclient_retry_budget = "1h"\nsenders = ["stripe"]\n'
        '[outbound.charges]\nretry_budget = "1h"\nprovider = "stripe-v1"\n'
    )

    done = folder.policy("check", "--as-of", "2126-01-01")

    places = {line.split(": ")[0] for line in done.lines}
    assert places == {"replayfloor.toml:3", "replayfloor.toml:6"}


def test_every_fault_of_every_policy_is_told(folder: Folder) -> None:
    folder.write(HOOKS + 'retention = "34d"\n' + REFUNDS.replace("20h", "24h"))

    found = folder.policy("check", *NOVEMBER, "--json").data

    assert [each["fault"] for each in found] == ["below-floor", "old-figure", "plan-too-long"]


def test_a_mistake_in_the_file_or_the_command_is_another_status(folder: Folder) -> None:
    folder.write(HOOKS + "x = 1\n")
    assert folder.policy("check").code == 2
    folder.write(HOOKS)
    assert folder.policy("check", "--as-of", "May").code == 2
    folder.write("")
    assert folder.policy("check").code == 2
