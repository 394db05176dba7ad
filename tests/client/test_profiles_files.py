"""The catalogue's files are read strictly: what is not understood is refused."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from replayfloor.client.catalogue.entries import read_entries
from replayfloor.client.catalogue.reading import seconds
from replayfloor.core.errors import ConfigurationError

DAY_S = 86_400.0
FILE = """
[sources.page]
at = "https://provider.example/keys"
read_on = "2026-01-31"
says = "a day"

[profiles.provider]
title = "Provider"
header = "Idempotency-Key"
methods = ["POST"]
hosts = ["provider.example"]
from = ["page"]
confidence = "documented"
retention = "PT24H"
retention_kind = "fixed"
key_length_max = 64
in_flight = [{ statuses = [409] }]
mismatch = "unknown"
replayed_by = "unknown"
"""


def test_the_file_of_these_tests_is_a_good_one() -> None:
    entry = read_entries(FILE, "file")["provider"]

    assert (entry.retention_s, entry.base.key_rules.length_max) == (DAY_S, 64)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Provider"', 'title = "Provider"\nretry = "yes"', "unknown fields: retry"),
        ('says = "a day"', 'says = "a day"\nauthor = "x"', "unknown fields: author"),
        ("statuses = [409]", "statuses = [409], status = 1", "unknown fields: status"),
        ("[sources.page]", "version = 1\n[sources.page]", "unknown fields: version"),
        ('read_on = "2026-01-31"', 'read_on = "2026-02-31"', "read_on"),
        ('read_on = "2026-01-31"', 'read_on = "lately"', "read_on"),
        ('read_on = "2026-01-31"\n', "", "read_on"),
        ('from = ["page"]', 'from = ["book"]', "unknown sources: book"),
        ('from = ["page"]', "from = []", "needs a source"),
        ('confidence = "documented"', 'confidence = "certain"', "confidence"),
        ('retention = "PT24H"', 'retention = "24 hours"', "not a duration"),
        ('retention = "PT24H"', "retention = 86400", "'retention' is a str"),
        ('retention = "PT24H"', 'retention = "unknown"', "retention_reason"),
        ("key_length_max = 64", 'key_length_max = "64"', "'key_length_max' is a int"),
        ("key_length_max = 64", "key_length_max = 31", "no key can be made"),
        ('methods = ["POST"]', "methods = [1]", "list of texts"),
        ('header = "Idempotency-Key"\n', "", "'header' is missing"),
        ("in_flight = [{ statuses = [409] }]\n", "", "'in_flight' is missing"),
        ("statuses = [409]", 'statuses = ["4xy"]', "neither a status"),
        ("statuses = [409]", "statuses = [999]", "100..599"),
        ("statuses = [409]", "", "needs a status, or a code"),
        ("statuses = [409]", 'codes = ["x"]', "codes_at"),
        ("[profiles.provider]", "[profiles.Provider]", "a name is made of"),
        ("[profiles.provider]", "[profiles.provider", "file"),
        ("[profiles.provider]", "[[profiles]]\n[profiles.provider]", "file"),
        ("key_length_max = 64", 'key_length_max = 64\nkey_form = "ulid"', "not a form of keys"),
        ("key_length_max = 64", 'key_length_max = 64\nkey_pattern = "["', "regular expression"),
        ('replayed_by = "unknown"', 'replayed_by = ["a b"]', "file.profiles.provider: "),
        (
            'replayed_by = "unknown"',
            'replayed_by = "unknown"\nfigures = { color = { value = "red" } }',
            "unknown fields: color",
        ),
    ],
)  # fmt: skip
def test_a_file_that_says_something_else_is_refused(old: str, new: str, message: str) -> None:
    assert old in FILE

    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read_entries(FILE.replace(old, new), "file")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("PT1H", timedelta(hours=1)),
        ("P45D", timedelta(days=45)),
        ("P1DT12H", timedelta(hours=36)),
        ("PT27H35M5S", timedelta(hours=27, minutes=35, seconds=5)),
    ],
)
def test_durations_are_read(text: str, length: timedelta) -> None:
    assert seconds(text) == length.total_seconds()


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "PT1.5H", "P1M", "1H", "PT1H ", "pt1h"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        seconds(text)
