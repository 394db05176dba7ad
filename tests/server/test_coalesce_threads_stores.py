"""The blocking stores put together what their threads ask; each thread has
its own answer, and one poisoned entry fails nobody else."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import psycopg
import pytest

from replayfloor.core.claims import (
    Claimed,
    Finish,
    Finished,
    InFlight,
)
from replayfloor.core.errors import ReceiptCorrupt, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_options import LANES_FROM
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.coalescing import LIMIT_S, Together, together, until

MANY = 24


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
        url: str = request.getfixturevalue("migrated_own_url")
        # Without connections that threads have for themselves.
        receipts = PostgresReceipts(url, pool_connections=LANES_FROM)

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
    migrated_own_url: str,
) -> None:
    receipts = PostgresReceipts(migrated_own_url, pool_connections=LANES_FROM)
    receipts.open()
    crowd = together(receipts._claims)
    ids = [new_id() for _ in range(3)]
    with psycopg.connect(migrated_own_url, autocommit=True) as other:
        other.execute("begin; lock table replayfloor.claims in access exclusive mode")

        def cut() -> None:
            query = (
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where wait_event_type = 'Lock'"
            )
            with psycopg.connect(migrated_own_url, autocommit=True) as third:
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
    migrated_own_url: str,
) -> None:
    """The COMMIT is sent along with the finish, and says itself only that it was skipped."""
    receipts = PostgresReceipts(migrated_own_url)
    for _ in range(60):
        lost = receipts.begin()
        assert not lost.commit(Finish(new_id(), new_fence(), receipt()))
        spoilt = receipts.begin()
        with pytest.raises(psycopg.errors.UndefinedFunction):
            spoilt.connection.execute("select no_such_function()")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            spoilt.commit(Finish(new_id(), new_fence(), receipt()))
    receipts.close()
