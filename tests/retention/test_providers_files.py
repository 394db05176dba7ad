"""Files of the catalogue are read strictly: what is not understood is refused, on its line."""

from __future__ import annotations

import re

import pytest

from replayfloor.retention import PolicyError
from replayfloor.retention.providers import Direction
from replayfloor.retention.providers_files import read_files, shipped_rows
from replayfloor.retention.providers_read import read_rows

FILE = """\
[sources.page]
at = "https://provider.example/webhooks"
read_on = "2026-01-31"
says = "three days"

[sources.older]
at = "https://provider.example/webhooks?v=1"
read_on = "2024-06"
says = "one day"

[common.inbound]
confidence = "documented"

[inbound.shop]
title = "Shop"
ship = true
from = ["page"]
event_id = "body /id"
manual_resend = { value = "unknown", exists = true }

[inbound.shop.auto_retry]
value = "P3D"
conflict = [
  { value = "P3D", says = "now" },
  { value = "P1D", says = "then", from = ["older"] },
]
safe = "P3D"
why = "the longer"
"""


def test_the_file_of_these_tests_is_a_good_one() -> None:
    (row,) = read_rows(FILE, "file.toml")
    auto_retry = row.figure("auto_retry")

    assert (row.name, row.direction, row.ship) == ("shop", Direction.INBOUND, True)
    assert auto_retry.seconds == 3 * 86_400.0
    assert auto_retry.conflict is not None
    assert [claim.sources[0].name for claim in auto_retry.conflict.claims] == ["page", "older"]
    assert row.figure("manual_resend").exists
    assert not row.figure("ack").known


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('title = "Shop"', 'title = "Shop"\nowner = "x"', 16, "'owner' is unknown in inbound.shop"),
        ('title = "Shop"\n', "", 14, "'title' is missing"),
        ("ship = true\n", "", 14, "ship is true or false"),
        ('ship = true', 'ship = "yes"', 16, "ship is true or false"),
        ('[inbound.shop]', "[inbond.shop]", 14, "did you mean 'inbound'"),
        ("[common.inbound]", "[common.inbond]", 11, "did you mean 'inbound'"),
        ('confidence = "documented"\n', "", 13, "'confidence' is missing"),
        ('confidence = "documented"', 'confidence = "certain"', None, "is no confidence"),
        ('from = ["page"]', 'from = ["pgae"]', 17, "did you mean 'page'"),
        ('from = ["page"]', "from = []", 17, "needs a source"),
        ('from = ["page"]', 'from = "page"', 17, "from is a list"),
        ('read_on = "2026-01-31"', 'read_on = "2026-02-31"', 3, "read_on is a date"),
        ('read_on = "2026-01-31"', 'read_on = "lately"', 3, "read_on is a date"),
        ('read_on = "2026-01-31"\n', "", 1, "read_on is a date"),
        ('says = "three days"\n', "", 1, "'says' is missing"),
        ('says = "three days"', 'says = " "', 4, "not ' '"),
        ('says = "three days"', 'says = "x"\nauthor = "y"', 5, "'author' is unknown"),
        ('value = "P3D"\n', 'value = "3 days"\n', 22, "the unit is 'd'"),
        ('value = "P3D"\n', "value = 3\n", 22, "auto_retry is a duration, not 3"),
        ('value = "P3D"\n', "", 21, "auto_retry is a duration, not None"),
        ('value = "P3D"\n', 'value = "P3D"\nunit = "h"\n', 23, "'unit' is unknown"),
        ('event_id = "body /id"', 'event_id = "in the body"', 18, "event_id is no place"),
        ('event_id = "body /id"', 'event_id = ["body /id"]', 18, "event_id is a text"),
        ('"unknown", exists = true', '"P1D", exists = true', 19, "exists is true where"),
        ('"unknown", exists = true', '"unknown", agreed_max = "x"', 19, "is no duration"),
        ('manual_resend = { value = "unknown", exists = true }\n', "", 14, "is missing"),
        ('why = "the longer"\n', "", 23, "claims, a safe side, and why"),
        ('safe = "P3D"', 'safe = "the longer"', 27, "is no duration"),
        ('  { value = "P1D", says = "then", from = ["older"] },\n', "", 23, "at least two claims"),
        ('says = "then", from', 'said = "then", from', 25, "'said' is unknown"),
        ('says = "then", from', "from", 25, "'says' is missing"),
        ("[inbound.shop]", "[inbound.Shop]", 14, "is no name of a row"),
        ("[inbound.shop]", "[inbound.shop", 14, "this is not TOML"),
    ],
)  # fmt: skip
def test_a_file_that_says_something_else_is_refused_on_its_line(
    old: str, new: str, line: int | None, message: str
) -> None:
    assert old in FILE
    text = FILE.replace(old, new)
    if old == "[inbound.shop]":
        text = text.replace("[inbound.shop.", new.rstrip("]") + ".")

    with pytest.raises(PolicyError, match=re.escape(message)) as caught:
        read_rows(text, "file.toml")

    assert caught.value.file == "file.toml"
    if line is not None:
        assert caught.value.line == line


def test_two_rows_of_one_name_in_one_direction_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"two\.toml: 'shop' is in one\.toml already"):
        read_files([(FILE, "one.toml"), (FILE, "two.toml")])

    other = FILE.replace("inbound.shop", "inbound.other")
    assert len(read_files([(FILE, "one.toml"), (other, "two.toml")])) == 2


def test_the_shipped_files_are_read_once() -> None:
    assert shipped_rows() is shipped_rows()
