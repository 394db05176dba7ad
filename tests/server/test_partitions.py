"""Partitions of receipts follow each other without a gap, and go when all in them is old."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

import psycopg
import pytest

from replayfloor.core.errors import ConfigurationError, SchemaMissing
from replayfloor.retention.layout import LIVE_PARTITIONS_MAX
from replayfloor.server.stores.maintenance import Keeping, Outcome, troubles
from replayfloor.server.stores.maintenance_postgres import planned, status
from replayfloor.server.stores.migrate import PARTITION_WIDTH, migrate
from server.partitions import (
    COPY,
    DAY,
    HOUR,
    START,
    Database,
    assert_no_gap,
    at_start,
    copied,
    reaches_s,
)
from support.services import Services

KEPT = Keeping(84 * 3600.0)
WIDTH = timedelta(hours=14)  # a sixth of it
MICROSECOND = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def template(services: Services) -> Iterator[str]:
    """A database whose clock stands at START, with partitions for 84 hours, to be copied."""
    yield at_start(services, "partitions_template", KEPT)
    services.postgres.drop("partitions_template")


@pytest.fixture
def database(services: Services, template: str) -> Iterator[Database]:
    """A copy of it."""
    yield copied(services, template)
    services.postgres.drop(COPY)


# -- made ahead -----------------------------------------------------------------------------------


@pytest.mark.parametrize("retention_s", [1.0, 3600.0, 84 * 3600.0, 35 * 86400.0, 400 * 86400.0])
def test_the_width_follows_from_the_retention_and_the_next_is_always_there(
    postgres_url: str, retention_s: float
) -> None:
    kept = Keeping(retention_s)
    migrate(postgres_url, keeping=kept)
    database = Database(postgres_url)
    ((now,),) = database.run("select now()")
    assert isinstance(now, datetime)

    bounds = database.bounds()

    assert_no_gap(bounds)
    width = timedelta(seconds=kept.width_s)
    assert {end - start for start, end in bounds} == {width}
    assert all(start.timestamp() % kept.width_s == 0 for start, _ in bounds)
    assert reaches_s(bounds, now) >= kept.ahead_s
    assert any(start > now for start, _ in bounds)
    live = [b for b in bounds if b[0] <= now]
    assert len(live) + retention_s // kept.width_s <= LIVE_PARTITIONS_MAX


def test_another_width_begins_where_the_last_partition_ends(database: Database) -> None:
    before = database.bounds()
    wider = Keeping(35 * 86400.0)

    database.maintain(wider)

    after = database.bounds()
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert_no_gap(after)
    assert all(end.timestamp() % wider.width_s == 0 for _, end in after[len(before) :])
    database.set_clock(after[-1][0])
    database.maintain(KEPT, accept_shorter=True)
    narrower = database.bounds()
    assert_no_gap(narrower)
    assert narrower[-1][1] - narrower[-1][0] == WIDTH


def test_the_next_partition_is_there_however_wide_the_current_one_is(database: Database) -> None:
    database.maintain(Keeping(35 * 86400.0))
    start, end = database.bounds()[-1]
    narrow = Keeping(1.0)
    assert end - start > timedelta(seconds=narrow.ahead_s)

    database.set_clock(start)
    database.maintain(narrow, accept_shorter=True)

    assert troubles(status(database.url), narrow) == ()
    assert database.bounds()[-1][0] == end


def test_any_order_of_widths_and_pauses_leaves_no_gap_and_no_overlap(database: Database) -> None:
    random, present = Random(20), START
    for _ in range(12):
        present += random.choice([MICROSECOND, HOUR, DAY, 40 * DAY]) * random.randint(1, 9)
        database.set_clock(present)
        kept = Keeping(random.choice([60.0, 1, 7, 84, 840]) * 3600.0)

        database.maintain(kept, accept_shorter=True)

        bounds = database.bounds()
        assert_no_gap(bounds)
        assert bounds[0][0] <= present
        assert sum(start > present for start, _ in bounds) >= 1
        database.insert(present)


@pytest.mark.parametrize("gone", ["current", "next", "all but the last"])
def test_a_partition_that_somebody_dropped_is_made_again(database: Database, gone: str) -> None:
    names = database.run("select name, starts_at from replayfloor.partitions_v1('receipts')")
    current = max(at for at, (start, _) in enumerate(database.bounds()) if start <= START)
    drop = {
        "current": names[current : current + 1],
        "next": names[current + 1 : current + 2],
        "all but the last": names[:-1],
    }[gone]
    for name, _ in drop:
        database.run(f'drop table replayfloor."{name}"')

    assert troubles(status(database.url), KEPT)
    database.maintain(KEPT)

    assert troubles(status(database.url), KEPT) == ()
    assert_no_gap(database.bounds())
    database.insert(START, START + WIDTH)


def test_a_migration_with_a_retention_redraws_what_lies_ahead_and_is_empty(
    postgres_url: str,
) -> None:
    migrate(postgres_url)
    database = Database(postgres_url)
    weekly = database.bounds()
    assert {end - start for start, end in weekly} == {PARTITION_WIDTH}

    migrate(postgres_url, keeping=KEPT)

    bounds = database.bounds()
    assert_no_gap(bounds)
    assert bounds[:2] == weekly[:2]
    assert {end - start for start, end in bounds[3:]} == {WIDTH}
    assert migrate(postgres_url).partitions == 0


def test_a_partition_ahead_that_holds_a_receipt_is_not_redrawn(postgres_url: str) -> None:
    migrate(postgres_url)
    database = Database(postgres_url)
    weekly = database.bounds()
    ids = database.insert(weekly[4][0])

    migrate(postgres_url, keeping=KEPT)

    assert database.bounds()[:5] == weekly[:5]
    assert_no_gap(database.bounds())
    assert database.ids() == set(ids)


def test_a_row_outside_of_all_partitions_is_an_error(database: Database) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition"):
        database.insert(database.bounds()[-1][1])


def test_a_partition_that_would_take_such_rows_in_silence_is_reported(database: Database) -> None:
    database.run("create table replayfloor.rest partition of replayfloor.receipts default")

    assert any("rest" in each for each in troubles(status(database.url), KEPT))


def test_partitions_are_made_while_a_handler_holds_its_transaction_open(
    database: Database,
) -> None:
    database.set_clock(START + 3 * DAY)
    with psycopg.connect(database.url) as handler:
        handler.execute(
            "insert into replayfloor.claims select gen_random_uuid(),"
            " gen_random_uuid(), gen_random_uuid(), now(), now() + interval '1 h'"
        )
        handler.execute(
            "insert into replayfloor.receipts select gen_random_uuid(),"
            " gen_random_uuid(), replayfloor.now_v1(), 1, 200, ''"
        )
        run = database.maintain(KEPT)

    assert run.made > 0
    assert reaches_s(database.bounds(), START + 3 * DAY) >= KEPT.ahead_s


# -- dropped --------------------------------------------------------------------------------------


def test_a_partition_is_dropped_when_the_retention_has_passed_since_its_end(
    database: Database,
) -> None:
    _, end = next(b for b in database.bounds() if b[0] <= START < b[1])
    ids = database.insert(START, end - MICROSECOND)
    expires = end + timedelta(seconds=KEPT.retention_s)

    database.set_clock(expires - MICROSECOND)
    database.maintain(KEPT)
    assert database.ids() == set(ids)

    database.set_clock(expires)
    assert ("drop", "receipts") in {(s.action, s.table) for s in planned(database.url, KEPT)}
    assert database.ids() == set(ids)
    assert database.maintain(KEPT).dropped >= 1
    assert database.ids() == set()


def test_a_run_never_drops_what_is_younger_than_the_retention(database: Database) -> None:
    random, present, alive = Random(5), START, dict[object, datetime]()
    for _ in range(10):
        alive |= dict.fromkeys(database.insert(present), present)
        present += random.randint(1, 30) * HOUR
        database.set_clock(present)
        database.maintain(KEPT)
        oldest = present - timedelta(seconds=KEPT.retention_s)

        young = {id_ for id_, at in alive.items() if at > oldest}
        assert young <= database.ids()
        # And not much longer: until the end of the partition has passed.
        kept = {id_ for id_, at in alive.items() if at > oldest - WIDTH}
        assert database.ids() <= kept


def test_a_shorter_retention_is_refused_unless_it_is_accepted(database: Database) -> None:
    ids = database.insert(START)
    database.set_clock(START + 3 * DAY)
    shorter = Keeping(3600.0)

    with pytest.raises(ConfigurationError, match=r"302400.*3600.*--accept-shorter"):
        database.maintain(shorter)
    assert database.ids() == set(ids)
    with pytest.raises(ConfigurationError, match="--accept-shorter"):
        migrate(database.url, keeping=shorter)

    database.maintain(shorter, accept_shorter=True)
    assert database.ids() == set()


def test_whoever_reads_for_long_is_not_waited_for_by_those_who_write(database: Database) -> None:
    database.insert(START)
    database.set_clock(START + 9 * DAY)
    with psycopg.connect(database.url) as reader:
        reader.execute("select count(*) from replayfloor.receipts").fetchone()
        call = "call replayfloor.maintain_v1(%s, %s, %s, p_lock_ms => 20, p_tries => 3)"
        ((outcome,),) = database.run(call, (KEPT.retention_ms, KEPT.width_ms, KEPT.ahead_ms))
        assert outcome == "overdue"
        assert database.count() == 1
        last = status(database.url).last
        assert last is not None
        assert "others hold locks" in last.detail

    assert database.maintain(KEPT).outcome is Outcome.DONE
    assert database.count() == 0


def test_a_partition_that_is_being_vacuumed_is_not_waited_for(database: Database) -> None:
    """Requests would queue behind who waits, and a vacuum takes as long as it takes."""
    database.insert(START)
    ((name,),) = database.run("select tableoid::regclass::text from replayfloor.receipts")
    database.set_clock(START + 9 * DAY)
    with psycopg.connect(database.url) as vacuum:
        vacuum.execute(f"lock table only {name} in share update exclusive mode".encode())
        call = "call replayfloor.maintain_v1(%s, %s, %s, p_lock_ms => 3000, p_tries => 1)"
        began = time.monotonic()
        ((outcome,),) = database.run(call, (KEPT.retention_ms, KEPT.width_ms, KEPT.ahead_ms))
        took_s = time.monotonic() - began

    assert outcome == "overdue"
    assert took_s < 2.5
    assert database.count() == 1


def test_without_the_schema_the_command_that_makes_it_is_named(postgres_url: str) -> None:
    with pytest.raises(SchemaMissing, match="replayfloor migrate"):
        Database(postgres_url).maintain(KEPT)
