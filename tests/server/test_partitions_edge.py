"""One execution a key, also astride the edge of two partitions; live to the last microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from uuid import UUID

import pytest

from replayfloor.core.claims import Claim, Claimed, Expired, Finish, Finished, InFlight, Reuse
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.backends import Ledger
from server.partitions import Database

ROUNDS = 200
KEPT = Keeping(84 * 3600.0)
MICROSECOND = timedelta(microseconds=1)
LATE_S = 0.01


@pytest.fixture
def database(postgres_url: str) -> Database:
    """A migrated database."""
    migrate(postgres_url, keeping=KEPT)
    return Database(postgres_url)


@pytest.fixture
def stores(database: Database) -> Iterator[list[PostgresReceipts]]:
    """Two stores, as two workers have them; connected while the clock is still right."""
    made = [PostgresReceipts(database.url) for _ in range(2)]
    for store in made:
        store.open()
    yield made
    for store in made:
        store.close()


def edge_of(database: Database) -> datetime:
    """Return where the present partition ends."""
    ((edge,),) = database.run(
        "select min(ends_at) from replayfloor.partitions_v1('receipts') where ends_at > now()"
    )
    assert isinstance(edge, datetime)
    return edge


def claim(id_: ReceiptId, reuse: Reuse = Reuse.REFUSE) -> Claim:
    """Return a claim with a fence of its own."""
    return Claim(id_, REQUEST, new_fence(), LONG_MS, retention_ms=KEPT.retention_ms, reuse=reuse)


def test_of_each_pair_astride_the_edge_one_is_executed(
    database: Database, stores: list[PostgresReceipts]
) -> None:
    edge, ledger = edge_of(database), Ledger(database.url)
    ledger.create()
    # Each look at the clock falls on either side of the edge, as if by chance.
    database.run(
        "create or replace function replayfloor.now_v1() returns timestamptz language sql"
        f" volatile as $$ select '{edge}'::timestamptz"
        " + (random() - 0.5) * interval '2 ms' $$"
    )
    together = Barrier(2, timeout=30)
    ids = [new_id() for _ in range(ROUNDS)]

    def work(store: PostgresReceipts) -> list[str]:
        executed: list[str] = []
        with database.connected() as connection:
            for id_ in ids:
                together.wait()
                while True:
                    mine = claim(id_)
                    answer = store.claim(mine)
                    if answer == Claimed():
                        connection.execute(ledger.insert.encode(), (id_.hex(),))
                        executed.append(id_.hex())
                        assert store.finish(Finish(id_, mine.fence, receipt()))
                        break
                    if isinstance(answer, Finished):
                        break
                    assert isinstance(answer, InFlight)
        return executed

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(work, stores)

    assert sorted(ledger.rows()) == sorted(id_.hex() for id_ in ids)
    assert len(one) + len(other) == ROUNDS
    sides = database.run(
        "select tableoid::regclass::text, count(*) from replayfloor.receipts group by 1"
    )
    assert len(sides) == 2
    assert database.count() == ROUNDS


@pytest.mark.parametrize("reuse", list(Reuse))
def test_a_retry_in_the_last_microsecond_replays_and_one_past_it_does_not(
    database: Database, stores: list[PostgresReceipts], reuse: Reuse
) -> None:
    store, other = stores
    id_ = new_id()
    first = claim(id_)
    store.claim(first)
    store.finish(Finish(id_, first.fence, receipt()))
    ((finished_at,),) = database.run("select finished_at from replayfloor.receipts")
    assert isinstance(finished_at, datetime)
    expires = finished_at + timedelta(seconds=KEPT.retention_s)

    database.set_clock(expires - MICROSECOND)
    last = other.claim(claim(id_, reuse))
    assert isinstance(last, Finished)
    assert last.receipt == receipt()

    database.set_clock(expires)
    expected = Claimed(reused=True) if reuse is Reuse.TELL else Expired()
    assert other.claim(claim(id_, reuse)) == expected
    assert database.ids() == (set() if reuse is Reuse.TELL else {UUID(bytes=id_)})
