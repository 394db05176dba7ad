"""`replayfloor partitions …`, and what `replayfloor migrate` is told about the retention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replayfloor.cli import command
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.maintenance_postgres import status
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.partitions import DAY, START, Database

NOBODY = "postgresql://u@127.0.0.1:1/d"
KEPT = Keeping(84 * 3600.0)
FIGURE = '{ value = "72h", source = "its manual", read_on = 2026-09-30, confidence = "documented" }'
POLICIES = f"""
[senders.shop]
automatic_retry = {FIGURE}

[inbound.hooks]
senders = ["shop"]
planned_outage = "12h"
"""


def run(*arguments: str) -> tuple[int, str]:
    """Return the exit status of a command, and all that it printed."""
    done = CliRunner().invoke(command(), arguments)
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture
def database(postgres_url: str) -> Database:
    """A database that was migrated without a retention, with its clock at START."""
    migrate(postgres_url)
    made = Database(postgres_url)
    made.set_clock(START)
    return made


def test_a_run_makes_and_drops_and_the_status_shows_it(database: Database) -> None:
    assert run("partitions", "status", database.url)[0] == 1  # nothing for START
    code, text = run("partitions", "maintain", database.url, "--retention", "84h")
    assert code == 0
    assert "done:" in text

    code, text = run("partitions", "status", database.url)

    assert code == 0
    assert all(word in text for word in ("current", "ahead", "retention: 84 h", "last run"))
    # What was said once need not be said again.
    assert run("partitions", "maintain", database.url)[0] == 0


def test_a_dry_run_changes_nothing(database: Database) -> None:
    before = database.bounds()
    code, text = run("partitions", "maintain", database.url, "--retention", "84h", "--dry-run")

    assert code == 0
    assert "would make receipts" in text
    assert database.bounds() == before
    run("partitions", "maintain", database.url, "--retention", "84h")
    text = run("partitions", "maintain", database.url, "--retention", "84h", "--dry-run")[1]
    assert text == "Nothing is to be done."


def test_an_overdue_drop_and_a_missing_partition_are_status_1(database: Database) -> None:
    database.maintain(KEPT)
    database.set_clock(START + 5 * DAY)
    code, text = run("partitions", "status", database.url)
    assert (code, "overdue" in text) == (1, True)
    assert "should have been dropped" in text

    code, text = run("partitions", "status", database.url, "--retention", "400d", "--json")
    assert code == 0
    document = json.loads(text)
    assert document["troubles"] == []
    assert {part["state"] for part in document["partitions"]} == {"live", "current", "ahead"}

    last, _ = database.bounds()[-1]
    database.set_clock(last)
    code, text = run("partitions", "status", database.url, "--retention", "400d", "--json")
    assert code == 1
    assert "next partition is missing" in json.loads(text)["troubles"][0]


def test_a_schedule_in_the_database_does_the_same(database: Database) -> None:
    database.maintain(KEPT)
    ids = database.insert(START)
    database.set_clock(START + 9 * DAY)
    options = ("--retention", "84h", "--audit", "400d", "--print-pg-cron")
    code, text = run("partitions", "maintain", database.url, *options)
    assert code == 0
    assert text.startswith("select cron.schedule('replayfloor-maintain', '")
    call = text.split("$$")[1]

    database.run(call)

    assert (database.ids(), database.ids("proofs")) == (set(), set(ids))
    last = status(database.url).last
    assert last is not None
    assert last.by == "pg_cron"


def test_a_policy_says_the_retention(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "replayfloor.toml"
    file.write_text(POLICIES)
    for spec in (str(file), f"{file}:hooks"):
        assert run("partitions", "maintain", database.url, "--policy", spec)[0] == 0
    kept = status(database.url).keeping
    assert kept == KEPT

    assert run("partitions", "maintain", database.url, "--policy", f"{file}:other")[0] == 2


def test_a_migration_takes_the_retention_and_the_layout(postgres_url: str) -> None:
    code, text = run("migrate", postgres_url, "--retention", "35d", "--rate", "0.5")
    assert (code, "layout plain" in text) == (0, True)
    assert status(postgres_url).layout == "plain"
    assert run("migrate", postgres_url, "--layout", "partitioned")[0] == 1

    code, text = run("partitions", "convert", postgres_url)
    assert (code, text) == (0, "Receipts are partitioned.")
    assert status(postgres_url).layout == "partitioned"
    assert status(postgres_url).keeping == Keeping(35 * 86400.0)
    code, text = run("migrate", postgres_url, "--retention", "84h")
    assert (code, "--accept-shorter" in text) == (1, True)
    assert run("migrate", postgres_url, "--retention", "84h", "--accept-shorter")[0] == 0


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--retention", "84h", "--policy", "x.toml"),
        ("--audit", "90d"),
        ("--retention", "84h", "--audit", "84h"),
        ("--retention", "3 months"),
    ],
)
def test_a_retention_that_is_not_said_or_makes_no_sense_is_refused(
    database: Database, options: tuple[str, ...]
) -> None:
    before = database.bounds()
    assert run("partitions", "maintain", database.url, *options)[0] == 2
    assert database.bounds() == before


def test_a_shorter_retention_has_to_be_accepted(database: Database) -> None:
    run("partitions", "maintain", database.url, "--retention", "84h")
    code, text = run("partitions", "maintain", database.url, "--retention", "1h")
    assert (code, "--accept-shorter" in text) == (2, True)
    options = ("--retention", "1h", "--accept-shorter")
    assert run("partitions", "maintain", database.url, *options)[0] == 0


def test_sqlite_has_a_status_and_a_sweep(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/receipts.db"
    assert run("partitions", "status", url)[0] == 1  # there is no file
    SQLiteReceipts(tmp_path / "receipts.db").open()

    assert run("partitions", "status", url, "--retention", "84h")[0] == 0
    assert run("partitions", "maintain", url, "--retention", "84h", "--dry-run")[0] == 0
    assert run("partitions", "maintain", url, "--retention", "84h")[0] == 0
    assert run("partitions", "convert", url, "--retention", "84h")[0] == 2
    assert run("partitions", "maintain", url, "--retention", "84h", "--print-pg-cron")[0] == 2


def test_a_database_that_is_away_is_status_1() -> None:
    for name in ("status", "maintain", "convert"):
        assert run("partitions", name, NOBODY, "--retention", "84h")[0] == 1
