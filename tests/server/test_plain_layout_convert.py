"""A plain table becomes a partitioned one, while workers write, and nothing is lost or doubled."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import psycopg
import pytest

from replayfloor.core.claims import Claim, Claimed, Finish, Finished, InFlight
from replayfloor.server.stores.maintenance import Keeping, troubles
from replayfloor.server.stores.maintenance_postgres import convert, status
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.backends import Ledger
from server.partitions import DAY, Database, assert_no_gap

KEPT = Keeping(84 * 3600.0)
WORKERS = 6
KEYS = 400
SHORT = "call replayfloor.convert_v1(%s, %s, 20, 2)"
ARGUMENTS = (KEPT.width_ms, KEPT.ahead_ms)


@pytest.fixture
def database(postgres_url: str) -> Database:
    """A database whose receipts are one table, with some in it."""
    migrate(postgres_url, layout="plain", keeping=KEPT)
    made = Database(postgres_url)
    made.fill(3000, now(made) - 3 * DAY, 3 * DAY)
    return made


def now(database: Database) -> datetime:
    """Return the database's present."""
    ((present,),) = database.run("select replayfloor.now_v1()")
    assert isinstance(present, datetime)
    return present


def test_every_receipt_is_kept_and_there_is_no_gap(database: Database) -> None:
    before = database.run("select * from replayfloor.receipts order by id")

    assert convert(database.url, KEPT)

    assert database.run("select * from replayfloor.receipts order by id") == before
    found = status(database.url)
    assert found.layout == "partitioned"
    assert troubles(found, KEPT) == ()
    assert_no_gap(database.bounds())
    database.insert(*(start for start, _ in database.bounds()))
    assert convert(database.url, KEPT)  # once more does no harm
    migrate(database.url)
    left = "select count(*) from pg_constraint where conname = 'receipts_converting'"
    assert database.number(left) == 0


def test_the_old_table_is_dropped_like_any_partition(database: Database) -> None:
    convert(database.url, KEPT)
    _, end = database.bounds()[0]
    expires = end + timedelta(seconds=KEPT.retention_s)

    database.set_clock(expires - timedelta(microseconds=1))
    database.maintain(KEPT)
    assert database.count() == 3000
    database.set_clock(expires)
    database.maintain(KEPT)
    assert database.count() == 0


def test_attaching_does_not_read_the_table(database: Database) -> None:
    """Whoever writes waits for that: the constraint that was checked before says enough."""
    notices: list[str] = []
    with database.connected() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        connection.execute("set client_min_messages = debug1")
        connection.execute("call replayfloor.convert_v1(%s, %s)", ARGUMENTS)

    assert any("implied by existing constraints" in notice for notice in notices)


def test_workers_that_write_meanwhile_execute_each_key_once(database: Database) -> None:
    ledger = Ledger(database.url)
    ledger.create()
    ids, failures = [new_id() for _ in range(KEYS)], list[BaseException]()
    begun = threading.Event()

    def work(number: int) -> None:
        store = PostgresReceipts(database.url)
        try:
            with database.connected() as connection:
                # Two workers each go the same way through the keys, and meet all the time.
                for at, id_ in enumerate(ids[number // 2 :: WORKERS // 2]):
                    if at == 10:
                        begun.set()
                    execute(store, connection, id_)
        except BaseException as error:  # noqa: BLE001 - looked at below
            failures.append(error)
        finally:
            store.close()

    def execute(
        store: PostgresReceipts, connection: psycopg.Connection[tuple[object, ...]], id_: object
    ) -> None:
        while True:
            mine = Claim(
                id_,  # type: ignore[arg-type]
                REQUEST,
                new_fence(),
                LONG_MS,
                retention_ms=KEPT.retention_ms,
            )
            answer = store.claim(mine)
            if answer == Claimed():
                connection.execute(ledger.insert.encode(), (mine.id.hex(),))
                assert store.finish(Finish(mine.id, mine.fence, receipt()))
            elif isinstance(answer, InFlight):
                continue
            else:
                assert isinstance(answer, Finished)
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    begun.wait(20)
    done = convert(database.url, KEPT)
    still = any(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()

    assert failures == []
    assert done
    assert still  # else it was not meanwhile
    assert sorted(ledger.rows()) == sorted(id_.hex() for id_ in ids)
    assert database.count() == 3000 + KEYS
    twice = "select count(*) from (select id from replayfloor.receipts group by id"
    assert database.number(f"{twice} having count(*) > 1) as t") == 0


def test_a_conversion_that_was_given_up_is_undone_before_it_could_refuse_a_receipt(
    database: Database,
) -> None:
    bound = "select count(*) from pg_constraint where conname = 'receipts_converting'"
    with psycopg.connect(database.url) as reader:
        database.run("select replayfloor.bound_plain_v1(%s, 1000)", (KEPT.width_ms,))
        reader.execute("select count(*) from replayfloor.receipts").fetchone()
        assert database.run(SHORT, ARGUMENTS) == [(False,)]
    assert database.number(bound) == 1
    database.maintain(KEPT)
    assert database.number(bound) == 1  # there is still time to go on

    ((until,),) = database.run("select replayfloor.converting_until_v1()")
    assert isinstance(until, datetime)
    assert until - now(database) >= DAY
    database.set_clock(until - timedelta(hours=11))
    database.maintain(KEPT)

    assert database.number(bound) == 0
    database.insert(until + DAY)
    assert convert(database.url, KEPT)
