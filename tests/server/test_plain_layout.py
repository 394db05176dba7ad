"""Receipts in one table without partitions: the same promises, and a sweep instead of drops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from contract.subjects import blocking_postgres_subject, postgres_subject
from replayfloor.core.errors import ConfigurationError
from replayfloor.server.stores.maintenance import Keeping, Outcome, troubles
from replayfloor.server.stores.maintenance_postgres import planned, status
from replayfloor.server.stores.migrate import check, migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject
from replayfloor.testing.look_back_contract import LookBackContract
from server.partitions import DAY, START, Database
from support.services import Services

KEPT = Keeping(84 * 3600.0)
AUDITED = Keeping(84 * 3600.0, audit_s=100 * 86400.0)
TEMPLATE = "plain_layout"
RETENTION = timedelta(seconds=KEPT.retention_s)
MICROSECOND = timedelta(microseconds=1)


class TestPlain(ReceiptsContract, LookBackContract):
    """Every promise of a store, and of the look back; all keys in one database."""

    @pytest.fixture
    async def subject(self, plain_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(plain_url) as subject:
            yield subject


class TestPlainBlocking(LookBackContract):
    """The look back of the blocking store."""

    @pytest.fixture
    async def subject(self, plain_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_postgres_subject(plain_url) as subject:
            yield subject


@pytest.fixture(scope="module")
def plain_url(services: Services) -> Iterator[str]:
    """The address of a database whose receipts are one table."""
    url = services.postgres.database(TEMPLATE)
    migrate(url, layout="plain")
    yield url
    services.postgres.restore()
    services.postgres.drop(TEMPLATE)


@pytest.fixture
def fresh_url(postgres_url: str) -> str:
    """The address of another one, for one test."""
    migrate(postgres_url, layout="plain")
    return postgres_url


@pytest.fixture
def database(fresh_url: str) -> Database:
    """The same, with its clock at START."""
    made = Database(fresh_url)
    made.set_clock(START)
    made.maintain(KEPT)
    return made


def test_the_layout_stays_what_it_is_and_lacks_nothing(fresh_url: str) -> None:
    migrate(fresh_url, keeping=KEPT)
    store = PostgresReceipts(fresh_url)
    store.open()
    store.close()

    assert status(fresh_url).layout == "plain"
    assert check(fresh_url).lacking == ()
    assert troubles(status(fresh_url), KEPT) == ()
    with pytest.raises(ConfigurationError, match="partitions convert"):
        migrate(fresh_url, layout="partitioned")


def test_partitions_that_hold_receipts_do_not_become_one_table(postgres_url: str) -> None:
    migrate(postgres_url)
    database = Database(postgres_url)
    ((now,),) = database.run("select now()")
    assert isinstance(now, datetime)
    ids = database.insert(now)

    with pytest.raises(ConfigurationError, match="hold rows"):
        migrate(postgres_url, layout="plain")

    assert database.ids() == set(ids)


def test_a_second_receipt_of_a_key_is_refused_by_an_index(database: Database) -> None:
    (id_,) = database.insert(START)
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.run(
            "insert into replayfloor.receipts values (%s, %s, now(), 1, 200, '')", (id_, id_)
        )


def test_a_sweep_deletes_what_is_past_its_retention_to_the_microsecond(database: Database) -> None:
    old, young = database.insert(START, START + MICROSECOND)
    database.set_clock(START + RETENTION - MICROSECOND)
    database.maintain(KEPT)
    assert database.ids() == {old, young}

    database.set_clock(START + RETENTION)
    assert [step.action for step in planned(database.url, KEPT)] == ["delete"]
    run = database.maintain(KEPT)

    assert (run.outcome, run.removed) == (Outcome.DONE, 1)
    assert database.ids() == {young}
    assert planned(database.url, KEPT) == []


def test_what_is_swept_stays_known_as_used_for_the_audit_retention(database: Database) -> None:
    database.fill(2500, START - 40 * DAY, DAY)
    ids = database.ids()

    run = database.maintain(AUDITED)

    assert (run.removed, run.proofs) == (2500, 2500)
    assert (database.ids(), database.ids("proofs")) == (set(), ids)
    database.set_clock(START + 100 * DAY)
    database.maintain(AUDITED)
    assert database.count("proofs") == 0


def test_a_sweep_works_in_short_transactions(database: Database) -> None:
    database.fill(3500, START - 9 * DAY, DAY)
    database.run("create table log (at xid8)")
    database.run(
        "create function note() returns trigger language plpgsql as $$ begin"
        " insert into log values (pg_current_xact_id()); return null; end $$"
    )
    database.run(
        "create trigger notes after delete on replayfloor.receipts for each row"
        " execute function note()"
    )

    database.maintain(KEPT)

    rows = database.run("select count(*) from log group by at order by 1")
    assert [int(str(count)) for (count,) in rows] == [500, 1000, 1000, 1000]


def test_a_sweep_waits_for_nobody_and_leaves_what_others_are_at(database: Database) -> None:
    held, free = database.insert(START - 9 * DAY, START - 9 * DAY)
    with psycopg.connect(database.url) as other:
        other.execute("select from replayfloor.receipts where id = %s for update", (held,))
        run = database.maintain(KEPT)
        assert run.removed == 1
        assert run.took_s < 5
        assert database.ids() == {held}

    database.maintain(KEPT)
    assert database.ids() == set()
    assert free != held


def test_the_sweep_finds_what_is_old_by_an_index(database: Database) -> None:
    database.fill(20_000, START, DAY)
    database.run("analyze replayfloor.receipts")
    plan = database.run(
        "explain select ctid from replayfloor.receipts where finished_at <= %s"
        " order by finished_at limit 1000",
        (START,),
    )

    assert "receipts_finished_at" in str(plan)
