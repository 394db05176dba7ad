"""The blocking stores and the blocking lock put together what their threads ask; each thread has
its own answer, and one poisoned entry fails nobody else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import psycopg
import pytest
import redis

from replayfloor.core.claims import (
    Acquired,
    Cached,
    Claimed,
    Finish,
    Finished,
    Held,
    InFlight,
    LockUnavailable,
    Release,
)
from replayfloor.core.errors import ReceiptCorrupt, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.coalesce_threads import Coalescer
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_wire import key_of
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.testing.contract import LONG_MS, claim, new_fence, new_id, receipt
from server.coalescing import LIMIT_S, until
from server.redis_locks import request
from server.wsgi_client import Worker, environ, serve

MANY = 24


@dataclass
class Together:
    """Has several threads ask one store while it is held, so that they are put together."""

    coalescers: list[Coalescer[object, object]]
    gate: threading.Event = field(default_factory=threading.Event)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64))
    batches: int = 0

    def __post_init__(self) -> None:
        for coalescer in self.coalescers:
            self._count(coalescer)

    def _count(self, coalescer: Coalescer[object, object]) -> None:
        perform = coalescer._perform

        def counting(*arguments: object) -> object:
            self.batches += 1
            return cast("Callable[..., object]", perform)(*arguments)

        coalescer._perform = counting  # type: ignore[assignment]

    def hold(self) -> Callable[[], None]:
        """Have one operation under way; return what ends it."""
        coalescer = self.coalescers[0]
        inside = threading.Event()

        def hold(_asked: object, _deadline: float) -> None:
            inside.set()
            assert self.gate.wait(LIMIT_S)

        alone, coalescer._alone = coalescer._alone, hold
        self.pool.submit(coalescer.ask, b"held", None)
        assert inside.wait(LIMIT_S)
        coalescer._alone = alone
        return self.gate.set

    def ask(self, *calls: Callable[[], object]) -> list[object]:
        """Return the answers, or failures, of calls that go into one batch."""
        coalescer, let_go = self.coalescers[0], self.hold()
        asked: list[Future[object]] = []
        for call in calls:
            asked.append(self.pool.submit(call))
            until(lambda: len(coalescer._turns._waiting) == len(asked))
        let_go()
        errors = [each.exception(LIMIT_S) for each in asked]
        return [error or each.result() for each, error in zip(asked, errors, strict=True)]


def together(*coalescers: object) -> Together:
    return Together(cast("list[Coalescer[object, object]]", list(coalescers)))


# -- receipts -------------------------------------------------------------------------------------


@dataclass
class Store:
    """A blocking store, how its claims are put together, and how its file or table is spoiled."""

    receipts: PostgresReceipts | SQLiteReceipts
    claims: Together
    finishes: Together
    spoil: Callable[[ReceiptId], None]
    entries_max: int = 0


@pytest.fixture(params=["postgres", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A blocking store of each kind, opened."""
    receipts: PostgresReceipts | SQLiteReceipts
    if request.param == "sqlite":
        receipts = SQLiteReceipts(tmp_path / "receipts.db")

        def spoil(id_: ReceiptId) -> None:
            with closing(sqlite3.connect(tmp_path / "receipts.db")) as database, database:
                database.execute(
                    "update replayfloor_receipts set response = x'00' where id = ?", (id_,)
                )

        made = Store(
            receipts, together(receipts._operations), together(receipts._operations), spoil
        )
    else:
        url: str = request.getfixturevalue("postgres_url")
        migrate(url)
        receipts = PostgresReceipts(url)

        def spoil(id_: ReceiptId) -> None:
            with psycopg.connect(url) as database:
                database.execute(
                    "update replayfloor.receipts set response = '\\x00' where id = %s",
                    (id_.hex(),),
                )

        made = Store(receipts, together(receipts._claims), together(receipts._finishes), spoil)
    receipts.open()
    yield made
    receipts.close()


def test_claims_that_wait_together_go_together_and_each_has_its_own_answer(store: Store) -> None:
    finished, held, orphan, fresh = (new_id() for _ in range(4))
    fence = new_fence()
    store.receipts.claim(claim(finished, fence))
    store.receipts.finish(Finish(finished, fence, receipt()))
    store.receipts.claim(claim(held, new_fence()))
    store.receipts.claim(claim(orphan, new_fence(), 1))
    threading.Event().wait(0.05)

    answers = store.claims.ask(
        *(
            lambda id_=id_: store.receipts.claim(claim(id_, new_fence(), takeover=True))
            for id_ in (finished, held, orphan, fresh)
        )
    )

    assert answers[0] == Finished(receipt())
    assert isinstance(answers[1], InFlight)
    assert answers[2:] == [Claimed(taken_over=True), Claimed()]
    assert store.claims.batches == 1


def test_claims_of_one_key_that_wait_together_have_one_winner(store: Store) -> None:
    id_ = new_id()
    answers = store.claims.ask(
        *(lambda: store.receipts.claim(claim(id_, new_fence())) for _ in range(4))
    )

    assert sum(answer == Claimed() for answer in answers) == 1
    assert sum(isinstance(answer, InFlight) for answer in answers) == 3


def test_finishes_that_wait_together_are_each_fenced(store: Store) -> None:
    ids, fence = [new_id() for _ in range(4)], new_fence()
    for id_ in ids:
        store.receipts.claim(claim(id_, fence))

    answers = store.finishes.ask(
        *(
            lambda id_=id_, fence=fence: store.receipts.finish(Finish(id_, fence, receipt()))
            for id_, fence in zip(ids, (fence, new_fence(), fence, fence), strict=True)
        )
    )

    assert answers == [True, False, True, True]
    found = [store.receipts.claim(claim(id_, new_fence())) for id_ in ids]
    assert [isinstance(answer, Finished) for answer in found] == answers


def test_a_receipt_that_cannot_be_read_fails_its_own_claim_only(store: Store) -> None:
    spoilt, fence = new_id(), new_fence()
    store.receipts.claim(claim(spoilt, fence))
    store.receipts.finish(Finish(spoilt, fence, receipt()))
    store.spoil(spoilt)

    answers = store.claims.ask(
        *(
            lambda id_=id_: store.receipts.claim(claim(id_, new_fence()))
            for id_ in (new_id(), spoilt, new_id())
        )
    )

    assert [answers[0], answers[2]] == [Claimed(), Claimed()]
    assert isinstance(answers[1], ReceiptCorrupt)


def test_a_finish_that_the_database_refuses_fails_alone(store: Store) -> None:
    ids, fence = [new_id() for _ in range(3)], new_fence()
    for id_ in ids:
        store.receipts.claim(claim(id_, fence))
    refused = Receipt(receipt().fingerprint, Response(7, (), b""))  # no status of HTTP

    answers = store.finishes.ask(
        *(
            lambda id_=id_, kept=kept: store.receipts.finish(Finish(id_, fence, kept))
            for id_, kept in zip(ids, (receipt(), refused, receipt()), strict=True)
        )
    )

    assert [answers[0], answers[2]] == [True, True]
    assert isinstance(answers[1], sqlite3.IntegrityError | psycopg.errors.CheckViolation)
    assert isinstance(store.receipts.claim(claim(ids[1], new_fence())), InFlight)


def test_when_the_connection_is_cut_each_claim_has_its_own_failure(
    postgres_url: str,
) -> None:
    migrate(postgres_url)
    receipts = PostgresReceipts(postgres_url)
    receipts.open()
    crowd = together(receipts._claims)
    ids = [new_id() for _ in range(3)]
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("begin; lock table replayfloor.claims in access exclusive mode")

        def cut() -> None:
            query = (
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where wait_event_type = 'Lock'"
            )
            with psycopg.connect(postgres_url, autocommit=True) as third:
                until(lambda: bool(third.execute(query).fetchall()))

        cutting = crowd.pool.submit(cut)
        answers = crowd.ask(
            *(lambda id_=id_: receipts.claim(claim(id_, new_fence())) for id_ in ids)
        )
        cutting.result(LIMIT_S)

    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert len({id(answer) for answer in answers}) == 3
    assert [cast("StoreUnavailable", answer).performed for answer in answers] == [None] * 3
    assert receipts.claim(claim(ids[0], new_fence())) == Claimed()
    receipts.close()


def test_what_failed_before_the_commit_is_told_however_the_answers_arrive(
    postgres_url: str,
) -> None:
    """The COMMIT is sent along with the finish, and says itself only that it was skipped."""
    migrate(postgres_url)
    receipts = PostgresReceipts(postgres_url)
    for _ in range(60):
        lost = receipts.begin()
        assert not lost.commit(Finish(new_id(), new_fence(), receipt()))
        spoilt = receipts.begin()
        with pytest.raises(psycopg.errors.UndefinedFunction):
            spoilt.connection.execute("select no_such_function()")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            spoilt.commit(Finish(new_id(), new_fence(), receipt()))
    receipts.close()


# -- the lock -------------------------------------------------------------------------------------


@pytest.fixture
def lock(redis_url: str) -> Iterator[RedisLock]:
    """A blocking lock, with patience."""
    lock = RedisLock(redis_url, timeout_s=LIMIT_S)
    yield lock
    lock.close()


def test_operations_on_the_lock_that_wait_together_are_one_script_call(
    lock: RedisLock, redis_url: str
) -> None:
    crowd, one, other = together(lock._operations), request(), request()
    lock.acquire(one)
    lock.acquire(other)
    with redis.Redis.from_url(redis_url) as client:
        client.config_resetstat()
        answers = crowd.ask(
            lambda: lock.acquire(request()),
            lambda: lock.acquire(request(one.id)),
            lambda: lock.release(Release(other.id, other.fence, receipt(), LONG_MS)),
        )
        stats = cast("dict[str, dict[str, int]]", client.info("commandstats"))

    assert answers[0] == Acquired()
    assert isinstance(answers[1], Held)
    assert answers[2] is True
    assert lock.acquire(request(other.id)) == Cached(receipt())
    # A server that has not seen the script yet is given its text.
    ran = [stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval")]
    assert ran in ([1, 0], [1, 1])


def test_a_value_that_is_no_lock_costs_its_own_key_the_lock_and_no_other(
    lock: RedisLock, redis_url: str
) -> None:
    spoilt = request()
    with redis.Redis.from_url(redis_url) as client:
        client.rpush(key_of(spoilt.id), "x")
    answers = together(lock._operations).ask(
        lambda: lock.acquire(request()),
        lambda: lock.acquire(spoilt),
        lambda: lock.acquire(request()),
    )

    assert answers == [Acquired(), LockUnavailable(), Acquired()]


def test_a_retry_directly_after_the_answer_never_meets_the_old_lock(lock: RedisLock) -> None:
    """The release is not waited for, and it comes before whatever comes later."""
    met: list[object] = []

    def rounds() -> None:
        one = request()
        for _ in range(200):
            taken = lock.acquire(one)
            lock.release_soon(Release(one.id, one.fence))
            one = request(one.id)
            if taken != Acquired():
                met.append(taken)

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(rounds) for _ in range(4)]:
            each.result(60)

    assert met == []


def test_a_retry_directly_after_the_answer_is_replayed_by_the_middleware(
    worker: Worker, redis_url: str
) -> None:
    lock = RedisLock(redis_url, timeout_s=LIMIT_S)
    app = worker.protect(worker.answering(), lock=lock)
    for number in range(200):
        first, retry = (serve(app, environ(key=f'"{number}"')) for _ in range(2))
        assert (first.status, retry.status) == (201, 201), number
        assert retry.brief[2] is True
    lock.close()

    assert worker.rows == 200


def test_closing_the_lock_performs_what_was_put_off(redis_url: str) -> None:
    lock, ones = RedisLock(redis_url, timeout_s=LIMIT_S), [request() for _ in range(MANY)]
    for one in ones:
        lock.acquire(one)
    crowd, closing = together(lock._operations), threading.Thread(target=lock.close)
    letting_go = crowd.hold()
    for one in ones:
        lock.release_soon(Release(one.id, one.fence))
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    letting_go()
    closing.join(LIMIT_S)

    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


ENDS = """
import sys
from replayfloor.core.claims import Release
from replayfloor.server.locks.redis import RedisLock
from server.redis_locks import request

lock, one = RedisLock(sys.argv[1], timeout_s=5.0), request()
lock.acquire(one)
lock.release_soon(Release(one.id, one.fence))
sys.exit(0)
"""


def test_a_worker_that_ends_leaves_no_lock_behind(redis_url: str) -> None:
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path[:0] = {[str(tests), *sys.path]!r}\n{ENDS}"
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(3):
            subprocess.run([sys.executable, "-c", code, redis_url], timeout=60, check=True)
            assert client.dbsize() == 0
