"""Days of traffic, in simulated time, on a real Postgres: what is kept, and how long.

The clock of the database is the test's; a run of the maintenance is made each day, as from cron.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from replayfloor.core.claims import Claim, Claimed, Finish, Finished, Reuse
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.maintenance import Keeping, Outcome, troubles
from replayfloor.server.stores.maintenance_postgres import status
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.partitions import DAY, HOUR, Database, assert_no_gap

KEPT = Keeping(7 * 86400.0)
RETENTION, WIDTH = timedelta(seconds=KEPT.retention_s), timedelta(seconds=KEPT.width_s)
ROWS_AN_HOUR = 60
PLATEAU = 1.35
"""How much the size may differ between two days of the plateau: by a partition of those live."""


def _size(database: Database) -> int:
    return database.number(
        "select sum(pg_total_relation_size(format('replayfloor.%I', p.name)))"
        " from replayfloor.partitions_v1('receipts') as p"
    )


@pytest.mark.parametrize("days", [18, pytest.param(35, marks=pytest.mark.slow)])
def test_receipts_are_there_for_their_retention_and_the_table_stays_as_large_as_it_was(
    postgres_url: str, days: int
) -> None:
    migrate(postgres_url, keeping=KEPT)
    database, store = Database(postgres_url), PostgresReceipts(postgres_url)
    ((start,),) = database.run("select now()")
    assert isinstance(start, datetime)
    store.open()
    told: list[tuple[datetime, ReceiptId]] = []
    sizes: list[int] = []
    for day in range(days):
        present = start + day * DAY
        database.set_clock(present)
        database.maintain(KEPT)
        _check_what_is_there(database, present, start)
        _check_some_keys(store, told, present)
        database.fill(24 * ROWS_AN_HOUR, present, DAY)
        # And one that goes the whole way, at noon.
        database.set_clock(present + 12 * HOUR)
        told.append((present + 12 * HOUR, _execute(store)))
        sizes.append(_size(database))

    plateau = sizes[len(sizes) // 2 :]
    assert max(plateau) / min(plateau) < PLATEAU
    assert max(plateau) < PLATEAU * max(sizes[: len(sizes) // 2])
    _check_the_end(database, start + days * DAY)
    store.close()


def _check_what_is_there(database: Database, present: datetime, start: datetime) -> None:
    """Everything younger than the retention, and nothing older than it by more than a width."""
    expired = present - RETENTION
    found = status(database.url)
    assert troubles(found, KEPT) == ()
    assert found.last is not None
    assert found.last.outcome is Outcome.DONE
    bounds = database.bounds()
    assert_no_gap(bounds)
    assert bounds[0][0] <= max(expired, start)  # the one that holds the youngest of the expired
    assert bounds[0][1] > expired  # and none that holds only such
    alive = database.number(
        "select count(*) from replayfloor.receipts where finished_at > %s", (expired,)
    )
    days = min((present - start) // DAY, RETENTION // DAY)
    # Of the day that is just expiring, the receipt of its first moment is too old.
    assert alive == days * (24 * ROWS_AN_HOUR + 1) - (present - start >= RETENTION)
    assert (
        database.number(
            "select count(*) from replayfloor.receipts where finished_at <= %s",
            (expired - WIDTH,),
        )
        == 0
    )


def _check_some_keys(
    store: PostgresReceipts, told: list[tuple[datetime, ReceiptId]], present: datetime
) -> None:
    for finished_at, id_ in told[-9:]:
        asked = Claim(
            id_,
            REQUEST,
            new_fence(),
            LONG_MS,
            retention_ms=KEPT.retention_ms,
            reuse=Reuse.NEVER,
        )
        replays = isinstance(store.claim(asked), Finished)
        assert replays == (present - finished_at < RETENTION)


def _execute(store: PostgresReceipts) -> ReceiptId:
    id_, fence = new_id(), new_fence()
    asked = Claim(id_, REQUEST, fence, LONG_MS, retention_ms=KEPT.retention_ms)
    assert store.claim(asked) == Claimed()
    assert store.finish(Finish(id_, fence, receipt()))
    return id_


def _check_the_end(database: Database, present: datetime) -> None:
    """Nothing was ever updated or deleted; without traffic everything goes."""
    database.run("create extension pgstattuple")
    dead = (
        "select coalesce(sum(t.dead_tuple_count), 0) from replayfloor.partitions_v1('receipts') p,"
        " pgstattuple(format('replayfloor.%I', p.name)::regclass) as t"
    )
    assert database.number(dead) == 0
    database.set_clock(present + RETENTION + WIDTH)
    database.maintain(KEPT)
    assert database.count() == 0
    empty = len(database.bounds())
    assert _size(database) == empty * 16384  # an index without entries, and a table's first page
