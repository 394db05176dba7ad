"""What receipts cost: computed, measured, and the measure held to what is promised."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from replayfloor.cli import command
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.message import Response
from replayfloor.core.receipt import encode_receipt, keep
from replayfloor.retention.storage import BYTES_PER_KEY, TOMBSTONE_BYTES
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.storage_measured import measure
from server.partitions import Database
from support.services import Services

ROWS = 120_000
EMPTY = keep(Fingerprint(bytes(16)), Response(204, (), b""))
KEPT = Keeping(35 * 86400.0, audit_s=400 * 86400.0)


def run(*arguments: str) -> tuple[int, str]:
    """Return the exit status of a command, and all that it printed."""
    done = CliRunner().invoke(command(), arguments)
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def database(services: Services) -> Iterator[Database]:
    """A database with receipts without an answer, and as many proofs."""
    made = Database(services.postgres.database("storage"))
    migrate(made.url, keeping=KEPT)
    made.run(
        "insert into replayfloor.receipts select gen_random_uuid(), gen_random_uuid(),"
        " now(), 12, 204, %s from generate_series(1, %s)",
        (encode_receipt(EMPTY), ROWS),
    )
    made.run("insert into replayfloor.proofs select id, finished_at from replayfloor.receipts")
    yield made
    services.postgres.drop("storage")


def test_a_receipt_without_a_body_takes_no_more_than_is_promised(database: Database) -> None:
    receipts, proofs = measure(database.url, exact=True)

    assert (receipts.table, receipts.rows, receipts.dead_rows) == ("receipts", ROWS, 0)
    assert receipts.bytes_per_key is not None
    assert receipts.bytes_per_key <= BYTES_PER_KEY
    assert receipts.total == receipts.heap + receipts.indexes
    assert proofs.rows == ROWS
    assert proofs.bytes_per_key is not None
    assert proofs.bytes_per_key <= TOMBSTONE_BYTES


def test_the_estimate_of_the_database_is_as_good_as_counting(database: Database) -> None:
    database.run("vacuum analyze")
    exact, estimated = (measure(database.url, exact=exact)[0] for exact in (True, False))

    assert estimated.rows == pytest.approx(exact.rows, rel=0.05)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rate", "20", "--days", "30"), "228 MB a day for 30 days: 6.84 GB"),
        (("--rate", "20", "--days", "35"), "7.98 GB"),
        (("--rate", "40", "--days", "30"), "13.7 GB"),
        (("--rate", "20", "--days", "30", "--bytes-per-key", "528"), "27.4 GB"),
        (("--rate", "20", "--days", "30", "--tombstones", "365"), "together"),
    ],
)
def test_the_command_computes(options: tuple[str, ...], said: str) -> None:
    status, text = run("storage", "estimate", *options)

    assert status == 0
    assert said in text


def test_the_measure_stands_beside_the_estimate(database: Database) -> None:
    status, text = run(
        "storage", "estimate", "--rate", "20", "--days", "30", "--measure", database.url, "--exact"
    )

    assert status == 0
    assert "6.84 GB" in text
    assert f"{ROWS:,}" in text
    assert "of the 6.84 GB that are expected" in text
    status, text = run("storage", "measure", database.url)
    assert status == 0
    assert "estimate" in text


def test_a_program_gets_the_same_as_json(database: Database) -> None:
    _, text = run("storage", "measure", database.url, "--exact", "--json")
    receipts = json.loads(text)[0]
    assert (receipts["table"], receipts["rows"]) == ("receipts", ROWS)
    assert receipts["total_bytes"] == receipts["heap_bytes"] + receipts["index_bytes"]

    options = ("--rate", "20", "--days", "30", "--measure", database.url, "--json")
    document = json.loads(run("storage", "estimate", *options)[1])
    assert document["bytes_per_day"] == 228_096_000
    assert document["measured"][0]["table"] == "receipts"


def test_an_empty_table_and_another_database_are_told_apart(postgres_url: str) -> None:
    migrate(postgres_url, layout="plain")
    receipts = measure(postgres_url, exact=True)[0]
    assert (receipts.rows, receipts.bytes_per_key) == (0, None)
    assert run("storage", "measure", postgres_url)[0] == 0
    with pytest.raises(UsageError, match="SQLite"):
        measure("sqlite:///receipts.db")


def test_what_cannot_be_is_refused() -> None:
    assert run("storage", "estimate", "--rate", "-1", "--days", "30")[0] == 2
    assert run("storage", "measure", "postgresql://u@127.0.0.1:1/d")[0] == 1
