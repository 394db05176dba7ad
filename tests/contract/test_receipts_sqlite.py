"""What the contract does not say of the SQLite stores: whose turn it is, and for how long."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import monotonic

import anyio
import pytest

from contract.subjects import blocking_sqlite_subject, sqlite_subject
from replayfloor.core.claims import Claimed, Finish, Finished, InFlight
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.testing.contract import (
    AFTER_SHORT_MS,
    SHORT_MS,
    ReceiptsSubject,
    claim,
    new_fence,
    new_id,
    receipt,
)

OPERATION_S = 0.3
ENDLESS = "with recursive n (i) as (select 1 union all select i from n) select max(i) from n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a ledger."""
    path = tmp_path / "receipts.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table ledger (entry int)")
    return path


@pytest.fixture
def blocking(path: Path) -> Iterator[SQLiteReceipts]:
    """A blocking store that loses its patience soon."""
    store = SQLiteReceipts(path, operation_s=OPERATION_S)
    yield store
    store.close()


@pytest.fixture
async def asynchronous(path: Path) -> AsyncIterator[AsyncSQLiteReceipts]:
    """An asynchronous store that loses its patience soon."""
    store = AsyncSQLiteReceipts(path, operation_s=OPERATION_S)
    yield store
    await store.close()


def entries(path: Path) -> int:
    """Count what was committed."""
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("select count(*) from ledger").fetchone()[0])


@pytest.fixture(params=["async", "blocking"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ReceiptsSubject]:
    """Two stores of a colour on one file."""
    made = sqlite_subject if request.param == "async" else blocking_sqlite_subject
    async with made(tmp_path / "receipts.db") as subject:
        yield subject


@pytest.mark.anyio
async def test_a_takeover_leaves_when_the_key_was_first_claimed(
    subject: ReceiptsSubject, tmp_path: Path
) -> None:
    id_, new = new_id(), new_fence()
    await subject.receipts.claim(claim(id_, new_fence(), SHORT_MS))
    await subject.pass_ms(AFTER_SHORT_MS)
    await subject.other.claim(claim(id_, new, takeover=True))
    await subject.other.finish(Finish(id_, new, receipt()))

    with closing(sqlite3.connect(tmp_path / "receipts.db")) as database:
        (took_ms,) = database.execute("select took_ms from replayfloor_receipts").fetchone()
    assert took_ms >= AFTER_SHORT_MS


@pytest.mark.anyio
async def test_a_handler_that_has_not_written_yet_holds_nobody_up(
    subject: ReceiptsSubject,
) -> None:
    transactions = [await subject.receipts.begin() for _ in range(3)]

    assert await subject.other.claim(claim(new_id(), new_fence())) == Claimed()
    for transaction in transactions:
        await transaction.rollback()


def test_a_handlers_connection_is_usable_from_its_threads(
    blocking: SQLiteReceipts, path: Path
) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    connection = transaction.connection

    def write(number: int) -> None:
        connection.execute("insert into ledger values (?)", (number,))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(32)))

    assert entries(path) == 0
    assert transaction.commit(Finish(id_, fence, receipt()))
    assert entries(path) == 32


def test_of_many_threads_claims_of_one_key_one_is_claimed(blocking: SQLiteReceipts) -> None:
    id_ = new_id()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _number: blocking.claim(claim(id_, new_fence())), range(48)))

    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    assert sum(isinstance(answer, InFlight) for answer in answers) == 47


def test_whoever_does_not_get_its_turn_in_time_is_told_so(blocking: SQLiteReceipts) -> None:
    transaction = blocking.begin()
    transaction.connection.execute("insert into ledger values (1)")
    began = monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        blocking.claim(claim(new_id(), new_fence()))

    assert monotonic() - began < OPERATION_S + 1
    assert raised.value.performed is False
    transaction.rollback()
    assert blocking.claim(claim(new_id(), new_fence())) == Claimed()


@pytest.mark.parametrize("query", ["commit", "; end", "/* /* */ rollback", "begin immediate"])
def test_a_handler_does_not_end_its_transaction(
    blocking: SQLiteReceipts, path: Path, query: str
) -> None:
    transaction = blocking.begin()
    transaction.connection.execute("insert into ledger values (1)")
    with pytest.raises(UsageError, match="ended by the middleware"):
        transaction.connection.execute(query)

    transaction.rollback()
    assert entries(path) == 0


def test_a_statement_left_running_is_interrupted_at_the_end(
    blocking: SQLiteReceipts, path: Path
) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    transaction = blocking.begin()
    connection = transaction.connection
    connection.execute("insert into ledger values (1)")
    ended: list[Exception] = []
    started = threading.Event()

    def left_behind() -> None:
        started.set()
        try:
            connection.execute(ENDLESS)
        except (sqlite3.Error, UsageError) as error:
            ended.append(error)

    thread = threading.Thread(target=left_behind)
    thread.start()
    started.wait()
    threading.Event().wait(0.1)  # the thread tells when it begins, not when SQLite does
    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(id_, fence, receipt()))
    thread.join(5)

    assert raised.value.performed is False
    assert len(ended) == 1
    assert entries(path) == 0
    assert isinstance(blocking.claim(claim(id_, new_fence())), InFlight)


@pytest.mark.anyio
async def test_a_statement_left_running_by_a_task_is_interrupted_at_the_end(
    asynchronous: AsyncSQLiteReceipts, path: Path
) -> None:
    id_, fence = new_id(), new_fence()
    await asynchronous.claim(claim(id_, fence))
    transaction = await asynchronous.begin()
    connection = transaction.connection
    await connection.execute("insert into ledger values (1)")

    async def left_behind() -> None:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            await connection.execute(ENDLESS)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(left_behind)
            await anyio.sleep(0.1)
            with pytest.raises(StoreUnavailable) as raised:
                await transaction.commit(Finish(id_, fence, receipt()))
            assert raised.value.performed is False

    assert entries(path) == 0
    assert isinstance(await asynchronous.claim(claim(id_, new_fence())), InFlight)


def test_a_receipt_is_finished_in_an_own_transaction_while_the_store_waits(
    blocking: SQLiteReceipts, path: Path
) -> None:
    """The file has one writer: a claim that comes meanwhile waits, and then sees the receipt."""
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    with closing(sqlite3.connect(path, check_same_thread=False)) as own:
        own.execute("insert into ledger values (1)")
        assert blocking.finish_in(own, Finish(id_, fence, receipt()))
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(blocking.claim, claim(id_, new_fence()))
            own.commit()
            assert following.result() == Finished(receipt())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no autocommit mode before")
@pytest.mark.parametrize("autocommit", [True, False])
def test_the_autocommit_attribute_of_an_own_connection_counts(
    blocking: SQLiteReceipts, path: Path, autocommit: object
) -> None:
    id_, fence = new_id(), new_fence()
    blocking.claim(claim(id_, fence))
    finish = Finish(id_, fence, receipt())
    options = {"autocommit": autocommit}  # unknown to the types of 3.11
    with closing(sqlite3.connect(path, **options)) as own:  # type: ignore[call-overload]
        if autocommit:
            with pytest.raises(UsageError, match="autocommit"):
                blocking.finish_in(own, finish)
        else:
            assert blocking.finish_in(own, finish)
            own.rollback()

    assert isinstance(blocking.claim(claim(id_, new_fence())), InFlight)
