"""Dropping partitions while requests run: none fails, and none waits for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from replayfloor.core.claims import Claim, Claimed, Finish, Reuse
from replayfloor.server.stores.maintenance import Keeping, Outcome, Run
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.testing.receipts_subject import LONG_MS, REQUEST, new_fence, new_id, receipt
from server.partitions import Database

WRITERS = 8
KEPT = Keeping(84 * 3600.0, audit_s=400 * 86400.0)
WIDTH = timedelta(seconds=KEPT.width_s)
OLD, OLD_ROWS = 4, 5000
STALL_S = 2.0
"""Some 0.08 s on a quiet machine; a busy one that runs other tests has pauses of its own."""


def expired(database: Database) -> None:
    """Add partitions that expired long ago, full of receipts."""
    first = database.bounds()[0][0]
    for back in range(1, OLD + 8):
        start = first - back * WIDTH
        database.run(
            "select replayfloor.attach_partition_v1('receipts', %s, %s)", (start, start + WIDTH)
        )
        if back >= 8:
            database.fill(OLD_ROWS, start, WIDTH)


class Writers:
    """Workers that claim and finish one key after the other."""

    def __init__(self, url: str) -> None:
        self.waits: list[float] = []
        self.failures: list[BaseException] = []
        self.executed = 0
        self._store = PostgresReceipts(url, pool_connections=WRITERS)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(WRITERS)]

    def __enter__(self) -> Writers:
        self._store.open()
        for thread in self._threads:
            thread.start()
        time.sleep(0.3)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.3)
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._store.close()

    def _work(self) -> None:
        while not self._stopping.is_set():
            id_, fence = new_id(), new_fence()
            asked = Claim(
                id_,
                REQUEST,
                fence,
                LONG_MS,
                retention_ms=KEPT.retention_ms,
                reuse=Reuse.REFUSE,
                proofs=True,
            )
            try:
                assert self._timed(partial(self._store.claim, asked)) == Claimed()
                done = Finish(id_, fence, receipt())
                assert self._timed(partial(self._store.finish, done)) is True
            except BaseException as error:  # noqa: BLE001 - counted below
                self.failures.append(error)
            else:
                self.executed += 1  # a few may be lost to a race; the database is asked too

    def _timed(self, call: Callable[[], object]) -> object:
        began = time.monotonic()
        try:
            return call()
        finally:
            self.waits.append(time.monotonic() - began)


def test_no_request_fails_or_waits_for_long_while_partitions_are_dropped(
    postgres_url: str,
) -> None:
    migrate(postgres_url, keeping=KEPT)
    database = Database(postgres_url)
    expired(database)
    ((now,),) = database.run("select now()")
    assert isinstance(now, datetime)
    runs: list[Run] = []

    with Writers(postgres_url) as writers:
        runs.append(database.maintain(KEPT))

    assert writers.failures == []
    assert max(writers.waits) < STALL_S
    assert [run.outcome for run in runs] == [Outcome.DONE]
    assert runs[0].proofs == database.count("proofs") == OLD * OLD_ROWS
    younger = database.number(
        "select count(*) from replayfloor.receipts where finished_at > %s",
        (now - timedelta(hours=1),),
    )
    assert younger == database.count() > WRITERS
    assert database.count("claims") == 0
