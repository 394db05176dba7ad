"""A SQLite file forgets what has expired: a little with the claims, all when it is maintained."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from replayfloor.core.claims import Claim, Claimed, Expired, Fence, Finish, Finished, Reuse
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance import Keeping, troubles
from replayfloor.server.stores.maintenance_sqlite import maintain, planned, status
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_file import SCHEMA_VERSION
from replayfloor.server.stores.sqlite_sweep import LATER_MS, ONE_IN, ROWS
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id, receipt

HOUR_S = 3600.0
KEPT = Keeping(84 * HOUR_S)
AUDITED = Keeping(84 * HOUR_S, audit_s=1000 * HOUR_S)


class Clock:
    """Seconds since 1970, as the test says."""

    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file will be."""
    return tmp_path / "receipts.db"


@pytest.fixture
def clock() -> Clock:
    """A clock that stands."""
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> SQLiteReceipts:
    """A store on the file."""
    return SQLiteReceipts(path, clock=clock)


def asked(*, proofs: bool = False, sweeps: bool = True, id_: ReceiptId | None = None) -> Claim:
    """Return a claim that sweeps, or does not."""
    fence = bytes([0 if sweeps else 1]) + new_fence()[1:]
    return Claim(
        id_ or new_id(),
        REQUEST,
        Fence(fence),
        LONG_MS,
        retention_ms=KEPT.retention_ms,
        reuse=Reuse.REFUSE,
        proofs=proofs,
    )


def execute(store: SQLiteReceipts, body: bytes = b"") -> ReceiptId:
    """Use a key; nothing is swept."""
    claim = asked(sweeps=False)
    assert store.claim(claim) == Claimed()
    assert store.finish(Finish(claim.id, claim.fence, receipt(body)))
    return claim.id


def rows(path: Path, table: str = "receipts") -> int:
    """Count what is in a table."""
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute(f"select count(*) from replayfloor_{table}").fetchone()[0])


def test_claims_delete_what_expired_an_hour_ago_a_few_at_a_time(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    for _ in range(ROWS + 2):
        execute(store)
    clock.now += KEPT.retention_s + LATER_MS / 1000 - 0.001
    store.claim(asked())
    assert rows(path) == ROWS + 2

    clock.now += 0.001
    store.claim(asked(sweeps=False))
    assert rows(path) == ROWS + 2
    store.claim(asked())
    assert rows(path) == 2
    store.claim(asked())
    assert rows(path) == 0
    assert rows(path, "proofs") == 0


def test_a_file_with_traffic_does_not_grow(store: SQLiteReceipts, path: Path, clock: Clock) -> None:
    most = 0
    for _hour in range(400):
        clock.now += HOUR_S
        for _ in range(2):
            claim = Claim(new_id(), REQUEST, new_fence(), LONG_MS, retention_ms=KEPT.retention_ms)
            store.claim(claim)
            store.finish(Finish(claim.id, claim.fence, receipt()))
        most = max(most, rows(path))

    assert 2 * 84 <= most < 2 * 84 + 8 * ONE_IN * ROWS


def test_what_is_swept_stays_known_as_used_if_the_claims_look_for_that(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    id_ = execute(store)
    clock.now += KEPT.retention_s + LATER_MS / 1000
    store.claim(asked(proofs=True))

    assert (rows(path), rows(path, "proofs")) == (0, 1)
    assert store.claim(asked(proofs=True, id_=id_)) == Expired()


def test_a_receipt_within_its_retention_is_never_swept(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    id_ = execute(store)
    clock.now += KEPT.retention_s - 0.001
    for _ in range(5):
        store.claim(asked())
    maintain(path, KEPT, by="test", clock=clock)

    assert isinstance(store.claim(asked(id_=id_)), Finished)


def test_no_namespace_sweeps_the_receipts_of_another(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    """One of an hour, one of 84 hours and one for good, in one file."""
    long, forever = execute(store), new_id()
    fence = new_fence()
    store.claim(Claim(forever, REQUEST, fence, LONG_MS))
    store.finish(Finish(forever, fence, receipt()))
    clock.now += 3 * HOUR_S
    for _ in range(2 * ONE_IN):
        short = Claim(new_id(), REQUEST, asked().fence, LONG_MS, retention_ms=3_600_000)
        store.claim(short)
        store.finish(Finish(short.id, short.fence, receipt()))
    clock.now += 3 * HOUR_S
    store.claim(Claim(new_id(), REQUEST, asked().fence, LONG_MS, retention_ms=3_600_000))
    maintain(path, Keeping(HOUR_S), by="test", clock=clock)

    assert isinstance(store.claim(asked(id_=long)), Finished)
    assert rows(path) <= 2


def test_a_receipt_for_good_is_not_swept_by_claims(store: SQLiteReceipts, clock: Clock) -> None:
    fence, id_ = new_fence(), new_id()
    store.claim(Claim(id_, REQUEST, fence, LONG_MS))
    store.finish(Finish(id_, fence, receipt()))
    clock.now += 999 * KEPT.retention_s
    store.claim(asked())

    assert isinstance(store.claim(Claim(id_, REQUEST, new_fence(), LONG_MS)), Finished)


def test_a_maintenance_deletes_everything_that_expired(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    for _ in range(250):
        execute(store)
    clock.now += KEPT.retention_s
    young = execute(store)
    assert [step.action for step in planned(path, KEPT, clock=clock)] == ["delete"]

    run = maintain(path, AUDITED, by="test", clock=clock)

    assert (run.removed, run.proofs) == (250, 250)
    assert (rows(path), rows(path, "proofs")) == (1, 250)
    assert isinstance(store.claim(asked(id_=young)), Finished)
    assert planned(path, KEPT, clock=clock) == []
    clock.now += 999 * HOUR_S
    maintain(path, AUDITED, by="test", clock=clock)
    assert rows(path, "proofs") == 1  # of the young one


def test_the_status_says_what_there_is_and_what_should_not_be(
    store: SQLiteReceipts, path: Path, clock: Clock
) -> None:
    execute(store)
    found = status(path, clock=clock)
    assert [(part.table, part.rows) for part in found.parts] == [("receipts", 1), ("proofs", 0)]
    assert troubles(found, KEPT) == ()

    clock.now += KEPT.retention_s + 26 * HOUR_S
    assert troubles(status(path, clock=clock), KEPT) == (
        "replayfloor_receipts has rows that should have been deleted",
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_release_gets_the_indexes_and_keeps_its_rows(
    path: Path, clock: Clock, version: int
) -> None:
    schema = load("sql/sqlite/schema.sql").partition("-- What has expired")[0]
    if version == 1:
        schema = schema.partition("create table replayfloor_proofs")[0]
    for column in ("retention_ms integer", "expires_ms   integer"):
        schema = schema.replace(f",\n    {column}", "")
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema)
        old.execute("create table replayfloor_schema (version integer not null)")
        old.execute("insert into replayfloor_schema values (?)", (version,))
        kept = (b"i" * 16, REQUEST, 1, 1, 201, b"")
        old.execute("insert into replayfloor_receipts values (?, ?, ?, ?, ?, ?)", kept)
        old.commit()

    store = SQLiteReceipts(path, clock=clock)
    store.open()
    store.close()

    with closing(sqlite3.connect(path)) as new:
        query = "select name from sqlite_schema where type = 'index' and sql is not null"
        names = sorted(name for (name,) in new.execute(query))
        assert names == [
            "replayfloor_proofs_used",
            "replayfloor_receipts_expires",
            "replayfloor_receipts_finished",
        ]
        assert new.execute("select version from replayfloor_schema").fetchall() == [
            (SCHEMA_VERSION,)
        ]
        plan = "explain query plan " + load("sql/sqlite/sweep.sql")
        steps = str(new.execute(plan, {"before_ms": 1, "now_ms": 1, "limit": 1}).fetchall())
        assert "replayfloor_receipts_finished" in steps
    assert rows(path) == 1
