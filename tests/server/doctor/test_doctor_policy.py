"""What is wrong with a policy is found, with its file and line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from replayfloor.server.doctor.check_policy import PolicyFacts, check_policy
from replayfloor.server.doctor.findings import Finding
from replayfloor.server.doctor.read_policy import read_policy
from server.doctor.examined import CRITICAL, NOTE, OK, WARNING, the, worse_than

TODAY = date(2026, 11, 30)
HALF_A_YEAR_S = 180 * 86_400.0

SHOP = """\
[senders.shop]
automatic_retry = { value = "VALUE", source = "https://shop.example", read_on = READ, \
confidence = "documented" }
[inbound.hooks]
senders = ["shop"]
safety_margin = "12h"
"""


def _read(folder: Path, text: str, name: str = "") -> PolicyFacts:
    file = folder / "replayfloor.toml"
    file.write_text(text, encoding="utf-8")
    return read_policy(f"{file}{name}", today=TODAY, older_than_s=HALF_A_YEAR_S)


def _examine(folder: Path, *, value: str = "72h", read: str = "2026-09-30", more: str = "",
             name: str = "") -> list[Finding]:  # fmt: skip
    text = SHOP.replace("VALUE", value).replace("READ", read) + more
    return check_policy(_read(folder, text, name))


def test_nothing_is_wrong_with_a_policy_of_fresh_figures(tmp_path: Path) -> None:
    found = _examine(tmp_path)

    assert worse_than(NOTE, found) == {}
    assert the(found, "policy.floor").data == {"floor_s": 84 * 3600, "retention_s": 84 * 3600}


def test_a_retention_below_the_floor_is_critical(tmp_path: Path) -> None:
    assert the(_examine(tmp_path, more='retention = "84h"\n'), "policy.floor").level is OK

    found = the(_examine(tmp_path, more='retention = "83h"\n'), "policy.floor")

    assert found.level is CRITICAL
    assert "replayfloor.toml:6" in found.found
    assert "second time" in found.why


def test_a_figure_that_nobody_publishes_is_critical(tmp_path: Path) -> None:
    found = the(_examine(tmp_path, value="unknown"), "policy.floor")

    assert found.level is CRITICAL
    assert found.data["fault"] == "unknown"
    assert "choose a figure" in found.do


@pytest.mark.parametrize(("read", "level"), [("2026-06-03", OK), ("2026-06-02", WARNING)])
def test_a_figure_that_was_read_too_long_ago_is_a_warning(
    tmp_path: Path, read: str, level: int
) -> None:
    assert the(_examine(tmp_path, read=read), "policy.figures").level is level


def test_the_rest_of_the_catalogue_is_only_noted(tmp_path: Path) -> None:
    file = tmp_path / "replayfloor.toml"
    file.write_text(SHOP.replace("VALUE", "72h").replace("READ", "2026-09-30"), encoding="utf-8")

    def found(days: int) -> list[Finding]:
        return check_policy(read_policy(str(file), today=TODAY, older_than_s=days * 86_400.0))

    strict = found(62)
    old = the(strict, "policy.catalogue")

    assert old.level is NOTE
    assert "providers check" in old.do
    assert the(strict, "policy.figures").level is OK
    assert int(str(old.data["overdue"])) > 0


def test_another_policy_of_the_file_is_not_told_of(tmp_path: Path) -> None:
    other = '[inbound.other]\nsenders = ["shop"]\nretention = "1h"\n'

    assert worse_than(NOTE, _examine(tmp_path, more=other, name=":hooks")) == {}
    assert the(_examine(tmp_path, more=other, name=":other"), "policy.floor").level is CRITICAL


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("[inbound", "", "replayfloor.toml"),
        (SHOP, ":nothing", "nothing"),
        ("[inbound.a]\n", "", "retention is derived"),
    ],
)
def test_a_file_that_cannot_be_used_is_critical(
    tmp_path: Path, text: str, name: str, says: str
) -> None:
    facts = _read(tmp_path, text.replace("VALUE", "72h").replace("READ", "2026-09-30"), name)

    found = the(check_policy(facts), "policy.readable")

    assert found.level is CRITICAL
    assert says in found.found
    assert facts.retention_s is None


def test_a_file_that_is_not_there_is_critical(tmp_path: Path) -> None:
    facts = read_policy(str(tmp_path / "no.toml"), today=TODAY, older_than_s=HALF_A_YEAR_S)

    assert the(check_policy(facts), "policy.readable").level is CRITICAL
