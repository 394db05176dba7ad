"""The asynchronous SQLite store puts together what arrives while the file is written: one
transaction, one wait for the disk, and an answer or a failure for each task of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from replayfloor.core.claims import Claimed, Finish, Finished, InFlight
from replayfloor.core.errors import ReceiptCorrupt, StoreUnavailable
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.server.stores.sqlite_file import Database
from replayfloor.testing.contract import claim, new_fence, new_id, receipt

pytestmark = pytest.mark.anyio

T = TypeVar("T")
MANY = 64
SOON_S = 0.3


class Held(Database):
    """A file that is written when it is let go. `transactions` are the threads that wrote it."""

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        super().__init__(path, 5.0)
        self.gate, self.started = threading.Event(), threading.Event()
        self.transactions: list[int] = []

    def committed(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction, after the gate was opened."""
        self.transactions.append(threading.get_ident())
        self.started.set()
        assert self.gate.wait(5)
        return super().committed(work)


def held(store: AsyncSQLiteReceipts, path: Path) -> Held:
    """Put a held file in the place of a store's own."""
    database = Held(path)
    store._database = store._operations._database = database
    return database


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[AsyncSQLiteReceipts]:
    """A store that loses its patience soon."""
    store = AsyncSQLiteReceipts(tmp_path / "receipts.db", operation_s=SOON_S)
    yield store
    await store.close()


@pytest.fixture
def file(store: AsyncSQLiteReceipts, tmp_path: Path) -> Held:
    """Its file."""
    return held(store, tmp_path / "receipts.db")


async def begun(file: Held) -> None:
    """Wait until a transaction is under way."""
    assert await asyncio.to_thread(file.started.wait, 5)


async def test_what_arrives_while_the_file_is_written_shares_the_next_transaction(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await begun(file)
    others = [asyncio.create_task(store.claim(claim(new_id(), new_fence()))) for _ in range(MANY)]
    await asyncio.sleep(0)
    file.gate.set()

    assert await asyncio.gather(first, *others) == [Claimed()] * (MANY + 1)
    assert len(file.transactions) == 2
    assert len(set(file.transactions)) == 1


async def test_claims_of_one_key_in_one_transaction_have_one_winner(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await begun(file)
    id_ = new_id()
    others = [asyncio.create_task(store.claim(claim(id_, new_fence()))) for _ in range(4)]
    await asyncio.sleep(0)
    file.gate.set()
    await first
    answers = await asyncio.gather(*others)

    assert [isinstance(answer, InFlight) for answer in answers] == [False, True, True, True]


async def test_an_operation_that_the_database_refuses_fails_alone(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    file.gate.set()
    ids, fence = [new_id() for _ in range(3)], new_fence()
    for id_ in ids:
        await store.claim(claim(id_, fence))
    file.gate.clear()
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await asyncio.sleep(0.01)
    refused = Receipt(receipt().fingerprint, Response(7, (), b""))  # no status of HTTP
    asked = [
        asyncio.create_task(store.finish(Finish(id_, fence, kept)))
        for id_, kept in zip(ids, (receipt(), refused, receipt()), strict=True)
    ]
    await asyncio.sleep(0)
    file.gate.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await first

    assert [answers[0], answers[2]] == [True, True]
    assert isinstance(answers[1], sqlite3.IntegrityError)
    assert isinstance(await store.claim(claim(ids[1], new_fence())), InFlight)


async def test_a_finish_whose_claim_is_lost_is_refused_and_the_others_are_not(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    file.gate.set()
    ids, fence = [new_id() for _ in range(3)], new_fence()
    for id_ in ids:
        await store.claim(claim(id_, fence))
    file.gate.clear()
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await asyncio.sleep(0.01)
    asked = [
        asyncio.create_task(store.finish(Finish(id_, owner, receipt())))
        for id_, owner in zip(ids, (fence, new_fence(), fence), strict=True)
    ]
    await asyncio.sleep(0)
    file.gate.set()

    assert await asyncio.gather(*asked) == [True, False, True]
    await first
    assert isinstance(await store.claim(claim(ids[1], new_fence())), InFlight)
    assert await store.claim(claim(ids[2], new_fence())) == Finished(receipt())


@pytest.mark.parametrize("stale_first", [True, False], ids=["stale first", "owner first"])
async def test_of_two_owners_of_a_key_that_finish_together_the_last_one_does(
    store: AsyncSQLiteReceipts, file: Held, stale_first: bool
) -> None:
    file.gate.set()
    id_, owner, stale = new_id(), new_fence(), new_fence()
    await store.claim(claim(id_, owner))
    file.gate.clear()
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await asyncio.sleep(0.01)
    fences = (stale, owner) if stale_first else (owner, stale)
    asked = [asyncio.create_task(store.finish(Finish(id_, fence, receipt()))) for fence in fences]
    await asyncio.sleep(0)
    file.gate.set()

    assert await asyncio.gather(*asked) == [fence == owner for fence in fences]
    await first
    claims = file.ready().execute("select count(*) from replayfloor_claims where id = ?", (id_,))
    assert claims.fetchone() == (0,)


async def test_first_requests_and_others_share_a_transaction_and_each_has_its_answer(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    file.gate.set()
    used, held_, fence = new_id(), new_id(), new_fence()
    await store.claim(claim(used, fence))
    await store.finish(Finish(used, fence, receipt()))
    await store.claim(claim(held_, fence))
    file.gate.clear()
    file.transactions.clear()
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await asyncio.sleep(0.01)
    ids = [new_id(), used, held_, new_id()]
    asked = [asyncio.create_task(store.claim(claim(id_, new_fence()))) for id_ in ids]
    await asyncio.sleep(0)
    file.gate.set()
    answers = await asyncio.gather(*asked)
    await first

    assert [answers[0], answers[1], answers[3]] == [Claimed(), Finished(receipt()), Claimed()]
    assert isinstance(answers[2], InFlight)
    assert len(file.transactions) == 2
    assert isinstance(await store.claim(claim(ids[0], new_fence())), InFlight)


async def test_a_receipt_that_cannot_be_read_costs_the_others_nothing(
    store: AsyncSQLiteReceipts, file: Held, tmp_path: Path
) -> None:
    file.gate.set()
    spoilt, fence = new_id(), new_fence()
    await store.claim(claim(spoilt, fence))
    await store.finish(Finish(spoilt, fence, receipt()))
    with sqlite3.connect(tmp_path / "receipts.db") as database:
        database.execute("update replayfloor_receipts set response = x'00'")
    database.close()
    file.gate.clear()
    file.transactions.clear()
    file.started.clear()
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await begun(file)
    asked = [
        asyncio.create_task(store.claim(claim(id_, new_fence()))) for id_ in (spoilt, new_id())
    ]
    await asyncio.sleep(0)
    file.gate.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await first

    assert isinstance(answers[0], ReceiptCorrupt)
    assert answers[1] == Claimed()
    assert len(file.transactions) == 2


async def test_a_task_that_is_cancelled_while_it_waits_was_never_performed(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    first = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await begun(file)
    id_ = new_id()
    cancelled = asyncio.create_task(store.claim(claim(id_, new_fence())))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    file.gate.set()
    await first

    assert await store.claim(claim(id_, new_fence())) == Claimed()


async def test_a_task_that_is_cancelled_under_way_ends_with_its_transaction(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    id_ = new_id()
    cancelled = asyncio.create_task(store.claim(claim(id_, new_fence())))
    await begun(file)
    cancelled.cancel()
    await asyncio.sleep(0.05)
    assert not cancelled.done()
    file.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    assert isinstance(await store.claim(claim(id_, new_fence())), InFlight)


async def test_a_task_that_is_cancelled_just_as_its_answer_comes_ends(
    store: AsyncSQLiteReceipts, file: Held
) -> None:
    """The answer is there, and the task has not run since."""
    task = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await begun(file)
    settle = store._operations._settle

    def settle_and_cancel(*arguments: object) -> None:
        settle(*arguments)  # type: ignore[arg-type]
        task.cancel()

    store._operations._settle = settle_and_cancel  # type: ignore[assignment,method-assign]
    file.gate.set()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_whoever_waits_for_a_handlers_transaction_gives_up_by_its_own_time(
    tmp_path: Path,
) -> None:
    store = AsyncSQLiteReceipts(tmp_path / "receipts.db", operation_s=SOON_S)
    await store.open()
    transaction = await store.begin()
    await transaction.connection.execute("create table ledger (n int)")
    early = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    await asyncio.sleep(SOON_S * 0.7)
    late = asyncio.create_task(store.claim(claim(new_id(), new_fence())))
    with pytest.raises(StoreUnavailable) as raised:
        await early
    await transaction.rollback()

    assert raised.value.performed is False
    assert await late == Claimed()
    await store.close()
