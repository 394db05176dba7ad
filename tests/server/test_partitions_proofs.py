"""The ids of what is dropped become proofs: all of them, once, whatever happens in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from replayfloor.core.claims import Claim, Claimed, Expired, Reuse
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.maintenance import Keeping, Outcome
from replayfloor.server.stores.maintenance_postgres import status
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id
from server.partitions import COPY, DAY, START, Database, at_start, copied
from support.services import Services

KEPT = Keeping(84 * 3600.0, audit_s=100 * 86400.0)
LATER = START + 9 * DAY
EXPIRE = """
do $$ declare
    v_proofs bigint := 0;
    v_done boolean;
    v_name text := (select e.name from replayfloor.expired_partitions_v1('receipts', 1) as e
                    where e.starts_at <= (select min(finished_at) from replayfloor.receipts)
                    order by e.starts_at desc limit 1);
begin
    call replayfloor.expire_partition_v1(v_name, true, 50, 40, v_proofs, v_done);
end $$
"""
FIRST_BATCH_S = 1.5
"""Long enough for the first batch, if it did not wait."""
CALL = "call replayfloor.maintain_v1(%s, %s, %s, %s, p_lock_ms => 20, p_tries => 2)"
ARGUMENTS = (KEPT.retention_ms, KEPT.width_ms, KEPT.ahead_ms, KEPT.audit_ms)


@pytest.fixture(scope="module")
def template(services: Services) -> Iterator[str]:
    """A database whose clock stands at START, to be copied."""
    yield at_start(services, "proofs_template", KEPT)
    services.postgres.drop("proofs_template")


@pytest.fixture
def database(services: Services, template: str) -> Iterator[Database]:
    """A copy of it."""
    yield copied(services, template)
    services.postgres.drop(COPY)


def test_ids_move_to_the_proofs_of_the_month_in_which_they_were_used(database: Database) -> None:
    ids = database.insert(START)
    database.set_clock(LATER)

    run = database.maintain(KEPT)

    assert (run.proofs, database.count()) == (1, 0)
    assert database.ids("proofs") == set(ids)
    assert database.run("select used_at from replayfloor.proofs") == [(START,)]


def test_without_an_audit_retention_nothing_is_kept(database: Database) -> None:
    database.insert(START)
    database.set_clock(LATER)

    database.maintain(Keeping(KEPT.retention_s))

    assert (database.count(), database.count("proofs")) == (0, 0)


def test_a_key_whose_receipt_was_dropped_is_still_refused(database: Database) -> None:
    (id_,) = database.insert(START)
    database.set_clock(LATER)
    database.maintain(KEPT)
    store = PostgresReceipts(database.url)

    def claim(id_: ReceiptId) -> object:
        return store.claim(
            Claim(
                id_,
                REQUEST,
                new_fence(),
                LONG_MS,
                retention_ms=KEPT.retention_ms,
                reuse=Reuse.REFUSE,
                proofs=True,
            )
        )

    # `open` would look for a partition at the real moment, which the clock of the test has left.
    database.run(
        "select replayfloor.attach_partition_v1('receipts', now() - interval '1 h',"
        " now() + interval '60 d')"
    )
    assert claim(ReceiptId(id_.bytes)) == Expired()
    assert claim(new_id()) == Claimed()
    store.close()


def test_proofs_are_dropped_after_the_audit_retention(database: Database) -> None:
    database.insert(START)
    database.set_clock(LATER)
    database.maintain(KEPT)
    month_ends = START.replace(month=4, day=1, hour=0, minute=0, second=0, microsecond=0)
    expires = month_ends + timedelta(days=100)

    database.set_clock(expires - timedelta(microseconds=1))
    database.maintain(KEPT)
    assert database.count("proofs") == 1

    database.set_clock(expires)
    database.maintain(KEPT)
    assert database.count("proofs") == 0
    assert database.bounds("proofs")[0][0] >= month_ends


def test_a_run_that_is_killed_between_two_batches_is_repeated_by_the_next(
    database: Database,
) -> None:
    database.fill(25_000, START)
    ids = database.ids()
    database.set_clock(LATER)
    killed = threading.Event()

    def kill() -> None:
        query = (
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where query like 'call replayfloor%%' and datname = current_database()"
        )
        with database.connected() as connection:
            for _ in range(2000):
                row = connection.execute("select count(*) from replayfloor.proofs").fetchone()
                if row != (0,):
                    connection.execute(query.replace("%%", "%"))
                    killed.set()
                    return
                time.sleep(0.002)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        database.run(CALL, ARGUMENTS)
    except psycopg.OperationalError:
        assert database.ids() == ids  # it was killed before the drop
    thread.join()

    assert killed.is_set()
    database.run(CALL, ARGUMENTS)
    assert database.count() == 0
    assert database.count("proofs") == len(ids)
    assert database.ids("proofs") == ids


def test_a_receipt_that_is_not_committed_yet_is_waited_for(database: Database) -> None:
    """A handler that began before the end of the partition, and hangs since then."""
    with psycopg.connect(database.url) as handler:
        handler.execute(
            "insert into replayfloor.receipts select gen_random_uuid(),"
            " gen_random_uuid(), replayfloor.now_v1(), 1, 200, ''"
        )
        database.set_clock(LATER)
        ((outcome,),) = database.run(CALL, ARGUMENTS)
        assert outcome == "overdue"
        handler.commit()

    ids = database.ids()
    assert len(ids) == 1
    assert database.maintain(KEPT).outcome is Outcome.DONE
    assert database.ids("proofs") == ids


def test_a_receipt_that_is_committed_between_two_batches_is_not_left_behind(
    database: Database,
) -> None:
    database.fill(10_001, START)
    database.set_clock(START)
    with psycopg.connect(database.url) as handler:
        handler.execute(
            "insert into replayfloor.receipts values ('00000000-0000-0000-0000-000000000000',"
            " gen_random_uuid(), replayfloor.now_v1(), 1, 200, '')"
        )
        database.set_clock(LATER)
        run = threading.Thread(target=database.run, args=(EXPIRE,))
        run.start()
        until = time.monotonic() + FIRST_BATCH_S
        while time.monotonic() < until and not database.count("proofs"):
            time.sleep(0.05)
        handler.commit()
    ids = database.ids() | database.ids("proofs")
    run.join()

    assert len(ids) == 10_002
    assert database.ids("proofs") == ids
    assert database.count() == 0


def test_ids_are_proofs_only_if_the_partition_was_dropped(database: Database) -> None:
    ids = database.insert(START)
    ((part,),) = database.run("select tableoid::regclass::text from replayfloor.receipts")
    database.set_clock(LATER)
    database.run(
        "create function refuse() returns event_trigger language plpgsql as $$ begin"
        " if exists (select from pg_event_trigger_dropped_objects()"
        f" where object_identity = '{part}')"
        " then raise exception 'no drop'; end if; end $$"
    )
    database.run("create event trigger refuses on sql_drop execute function refuse()")

    with pytest.raises(psycopg.errors.RaiseException, match="no drop"):
        database.maintain(KEPT)

    assert (database.ids(), database.ids("proofs")) == (set(ids), set())
    last = status(database.url).last
    assert last is not None
    assert (last.outcome, last.detail) == (Outcome.FAILED, "no drop")
