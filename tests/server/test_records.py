"""Looking at claims and receipts, on both databases: what is found, and what is refused."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from replayfloor.core.errors import (
    ConfigurationError,
    ReceiptCorrupt,
    SchemaMissing,
    StoreUnavailable,
    UsageError,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.records import ClaimRecord, ReceiptRecord, open_records
from replayfloor.server.stores.records_postgres import PostgresRecords
from replayfloor.server.stores.records_sqlite import SQLiteRecords
from server.cli_databases import REQUEST, Database, id_of, of_kind, opened

NOBODY = "postgresql://u:s3cret@127.0.0.1:1/d"  # nothing listens on port 1
SOON = timedelta(seconds=10)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of either kind."""
    with of_kind(request.param, request) as made:
        yield made


def near_now(time_: datetime) -> bool:
    """Say whether a moment is one of this test, and in UTC."""
    return time_.tzinfo is UTC and abs(datetime.now(UTC) - time_) < SOON


def test_orphans_are_listed_longest_orphaned_first_and_claims_in_flight_are_not(
    database: Database,
) -> None:
    first, second = database.orphan(), database.orphan()
    database.in_flight()

    found = database.records.orphans(10)

    assert [each.id for each in found] == [first, second]
    assert all(each.orphaned and each.fingerprint == REQUEST for each in found)
    assert all(near_now(each.claimed_at) and near_now(each.lease_until) for each in found)
    assert [each.id for each in database.records.orphans(1)] == [first]


def test_an_orphan_that_is_not_old_enough_is_not_listed(database: Database) -> None:
    database.orphan()

    assert database.records.orphans(10, timedelta(seconds=30)) == []
    assert len(database.records.orphans(10, timedelta(milliseconds=5))) == 1


def test_claims_are_listed_oldest_first_with_their_state(database: Database) -> None:
    first = database.in_flight()
    time.sleep(0.005)  # SQLite keeps whole milliseconds
    second = database.orphan()

    found = database.records.claims(10)

    assert [(each.id, each.orphaned) for each in found] == [(first, False), (second, True)]
    assert len(database.records.claims(1)) == 1


def test_receipts_are_listed_latest_first_without_their_answers(database: Database) -> None:
    first = database.finished()
    time.sleep(0.005)  # SQLite keeps whole milliseconds
    second = database.finished(status=404, body=b"x" * 5000)
    database.orphan()

    found = database.records.receipts(10)

    assert [(each.id, each.status) for each in found] == [(second, 404), (first, 201)]
    assert all(near_now(each.finished_at) and each.took_ms >= 0 for each in found)
    assert found[0].stored_bytes > 5000
    assert [each.receipt for each in found] == [None, None]
    assert [each.id for each in database.records.receipts(1)] == [second]


def test_a_receipt_that_was_finished_before_the_time_asked_for_is_not_listed(
    database: Database,
) -> None:
    database.finished()
    time.sleep(0.05)

    assert database.records.receipts(10, timedelta(milliseconds=10)) == []
    assert len(database.records.receipts(10, timedelta(hours=1))) == 1


def test_a_key_is_found_by_its_id_whole_or_by_its_beginning(database: Database) -> None:
    orphan, finished = database.orphan(), database.finished(body=b"the answer")
    records = database.records

    for text in (orphan.hex(), orphan.hex()[:8], orphan.hex()[:13].upper()):
        found = records.find(text)
        assert isinstance(found, ClaimRecord)
        assert (found.id, found.orphaned) == (orphan, True)
    whole = records.find(finished.hex())
    assert isinstance(whole, ReceiptRecord)
    assert whole.receipt is not None
    assert whole.receipt.response.body == b"the answer"


def test_an_id_may_be_written_as_the_database_shows_it(database: Database) -> None:
    id_ = database.orphan()
    text = id_.hex()

    found = database.records.find(
        f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    )

    assert found is not None
    assert found.id == id_


def test_nothing_is_found_of_a_key_that_was_never_used(database: Database) -> None:
    assert database.records.find("0" * 32) is None
    assert database.records.find_key("default", None, "never") is None


@pytest.mark.parametrize(
    "text", ["", "1234567", "0" * 33, "xyzxyzxyz", "12345678%", "--------", "12345678 "]
)
def test_what_is_not_an_id_is_refused(database: Database, text: str) -> None:
    with pytest.raises(UsageError, match="32 hex digits"):
        database.records.find(text)


def test_a_beginning_that_several_ids_share_is_refused_and_they_are_named(
    database: Database,
) -> None:
    one, other = (ReceiptId(bytes.fromhex("abcdef01" + digit * 24)) for digit in "1e")
    database.orphan(one)
    database.finished(other)

    with pytest.raises(UsageError, match="several ids") as raised:
        database.records.find("abcdef01")
    found = database.records.find("abcdef01e")

    assert one.hex() in str(raised.value)
    assert other.hex() in str(raised.value)
    assert found is not None
    assert found.id == other


def test_the_first_and_the_last_id_are_found_by_their_beginnings(database: Database) -> None:
    lowest, highest = ReceiptId(bytes(16)), ReceiptId(b"\xff" * 16)
    database.orphan(lowest)
    database.finished(highest)

    assert database.records.find("00000000") is not None
    assert database.records.find("ffffffff") is not None


def test_a_key_is_found_by_the_customers_own_text_in_its_owners_scope(database: Database) -> None:
    id_ = database.finished(id_of("invoice-1", "acme"))

    found = database.records.find_key("default", "acme", "invoice-1")

    assert found is not None
    assert found.id == id_
    for namespace, principal in (("default", None), ("default", "other"), ("elsewhere", "acme")):
        assert database.records.find_key(namespace, principal, "invoice-1") is None


def test_a_receipt_that_cannot_be_decoded_says_so(database: Database) -> None:
    id_ = database.finished()
    database.corrupt(id_)

    assert len(database.records.receipts(10)) == 1
    with pytest.raises(ReceiptCorrupt):
        database.records.find(id_.hex())


def test_an_eviction_forgets_the_receipt_and_is_noted_with_who_did_it(database: Database) -> None:
    id_ = database.finished(status=402)

    first = database.records.evict(id_, "ann@host", "duplicate of ticket 5")
    second = database.records.evict(id_, "ann@host")

    assert (first, second) == (True, False)
    assert database.records.find(id_.hex()) is None
    (line,) = database.records.audit(10, id_)
    assert (line.action, line.id) == ("evict", id_)
    assert line.by.startswith("ann@host")
    assert "status 402" in line.detail
    assert "duplicate of ticket 5" in line.detail
    assert near_now(line.at)


@pytest.mark.parametrize("kind", ["orphan", "in_flight"])
def test_a_claim_is_not_evicted(database: Database, kind: str) -> None:
    id_: ReceiptId = getattr(database, kind)()

    assert not database.records.evict(id_, "ann@host")
    assert len(database.records.claims(10)) == 1
    assert database.records.audit(10, id_) == []


def test_the_audit_trail_is_read_latest_first_for_one_key_or_all(database: Database) -> None:
    one, other = database.finished(), database.finished()
    records = database.records
    for id_, action in ((one, "first"), (other, "second"), (one, "third")):
        records.note(id_, "bob", action, "why; 'quoted' -- and not SQL")
        time.sleep(0.005)

    assert [line.action for line in records.audit(10, one)] == ["third", "first"]
    assert [line.action for line in records.audit(2)][:2] == ["third", "second"]
    assert records.audit(10, one)[0].detail == "why; 'quoted' -- and not SQL"


def test_a_database_that_is_not_there_is_unavailable_and_its_password_is_not_told() -> None:
    with pytest.raises(StoreUnavailable) as raised:
        open_records(NOBODY).orphans(10)

    assert "s3cret" not in str(raised.value)


def test_a_statement_that_has_to_wait_does_not_wait_without_end(emptied_url: str) -> None:
    records = PostgresRecords(emptied_url, operation_s=0.5)
    assert records.orphans(10) == []
    began = time.monotonic()

    with psycopg.connect(emptied_url) as holder:
        holder.execute("lock table replayfloor.claims in access exclusive mode")
        with pytest.raises(StoreUnavailable):
            records.orphans(10)

    assert time.monotonic() - began < 3


def test_a_database_without_our_schema_says_what_to_do(postgres_url: str) -> None:
    with pytest.raises(SchemaMissing, match="run: replayfloor migrate"):
        open_records(postgres_url).orphans(10)


def test_a_user_without_rights_is_told_so(emptied_url: str) -> None:
    with psycopg.connect(emptied_url, autocommit=True) as connection:
        connection.execute("drop role if exists looker")
        connection.execute("create role looker login")
        connection.execute("grant usage on schema replayfloor to looker")
    as_looker = make_conninfo(emptied_url, user="looker")
    try:
        with pytest.raises(ConfigurationError, match="does not let this user"):
            PostgresRecords(as_looker).orphans(10)
    finally:
        with psycopg.connect(emptied_url, autocommit=True) as connection:
            connection.execute("drop owned by looker")
            connection.execute("drop role looker")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"

    with pytest.raises(StoreUnavailable):
        SQLiteRecords(path).orphans(10)

    assert not path.exists()


def test_a_file_without_receipts_says_so(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table something (else_ text)")

    with pytest.raises(SchemaMissing, match="holds no receipts"):
        SQLiteRecords(path).orphans(10)


def test_who_looks_at_a_file_does_not_wait_for_one_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "receipts.db"
    with opened(f"sqlite:///{path}") as database:
        database.orphan()
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("begin immediate")
            records = SQLiteRecords(path, operation_s=0.1)
            assert len(records.orphans(10)) == 1
            with pytest.raises(StoreUnavailable):
                records.note(ReceiptId(bytes(16)), "ann", "note")


@pytest.mark.parametrize("url", ["mysql://host/db", "receipts.db", "sqlite://host/receipts.db"])
def test_an_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_records(url)
