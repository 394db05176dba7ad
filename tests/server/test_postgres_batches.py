"""Claims and finishes that share a statement are answered as if each had one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from replayfloor.core.claims import (
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Reuse,
)
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_batch import ENTRIES_MAX
from replayfloor.testing.contract import LONG_MS, REQUEST, new_fence, new_id

pytestmark = pytest.mark.anyio

RETENTION_MS = 3_600_000


@pytest.fixture
async def receipts(migrated_own_url: str) -> AsyncIterator[AsyncPostgresReceipts]:
    store = AsyncPostgresReceipts(migrated_own_url)
    yield store
    await store.close()


@pytest.fixture
def database(migrated_own_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(migrated_own_url, autocommit=True) as connection:
        yield connection


def claim(**changes: object) -> Claim:
    first = Claim(new_id(), REQUEST, new_fence(), LONG_MS, retention_ms=RETENTION_MS)
    return replace(first, **changes)  # type: ignore[arg-type]


def finish(claimed: Claim, status: int = 201) -> Finish:
    response = Response(status, ((b"content-type", b"text/plain"),), claimed.id)
    return Finish(claimed.id, claimed.fence, Receipt(REQUEST, response))


def transactions(database: psycopg.Connection, table: str) -> int:
    count = sql.SQL("select count(distinct xmin::text) from {}")
    row = database.execute(count.format(sql.Identifier("replayfloor", table))).fetchone()
    assert row is not None
    return int(row[0])


async def test_claims_at_the_same_time_share_a_commit(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    claims = [claim() for _ in range(3 * ENTRIES_MAX)]

    answers = await asyncio.gather(*map(receipts.claim, claims))

    assert answers == [Claimed()] * len(claims)
    # One for those that were there first, the rest in full batches.
    assert transactions(database, "claims") <= 4


async def test_finishes_at_the_same_time_share_a_commit_and_are_all_there(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    claims = [claim() for _ in range(100)]
    await asyncio.gather(*map(receipts.claim, claims))

    assert all(await asyncio.gather(*(receipts.finish(finish(one)) for one in claims)))

    assert transactions(database, "receipts") <= 2
    again = await asyncio.gather(*(receipts.claim(replace(c, fence=new_fence())) for c in claims))
    for one, answer in zip(claims, again, strict=True):
        assert isinstance(answer, Finished)
        assert answer.receipt == finish(one).receipt
        assert answer.left_ms is not None
        assert 0 < answer.left_ms <= RETENTION_MS
    assert database.execute("select count(*) from replayfloor.claims").fetchone() == (0,)


async def test_of_one_key_asked_for_many_times_at_once_one_is_claimed(
    receipts: AsyncPostgresReceipts,
) -> None:
    same = claim()
    contenders = [replace(same, fence=new_fence()) for _ in range(50)]

    answers = await asyncio.gather(*map(receipts.claim, contenders))

    assert answers.count(Claimed()) == 1
    assert sum(isinstance(answer, InFlight) for answer in answers) == 49


def test_the_same_id_twice_in_one_statement_is_taken_once(database: psycopg.Connection) -> None:
    """The client never does that; if another one did, two executions would not follow."""
    id_, fences = UUID(int=7), [UUID(int=1), UUID(int=2)]

    rows = database.execute(
        "select place, state from replayfloor.claim_batch_v1(%s, %s, %s, %s, %s, false)",
        ([id_, id_], [id_, id_], fences, [1000, 1000], [None, None]),
    ).fetchall()

    assert [state for _place, state in rows] == ["in_flight"]
    assert database.execute("select fence from replayfloor.claims").fetchall() == [(fences[0],)]


async def test_a_receipt_that_cannot_be_stored_fails_alone(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    claims = [claim() for _ in range(20)]
    await asyncio.gather(*map(receipts.claim, claims))
    finishes = [finish(one) for one in claims]
    # 99 is no status of HTTP, and the table says so.
    finishes[7] = finish(claims[7], status=99)

    outcomes = await asyncio.gather(*map(receipts.finish, finishes), return_exceptions=True)

    assert isinstance(outcomes[7], psycopg.errors.CheckViolation)
    assert [one for one in outcomes if one is True] == [True] * 19
    assert database.execute("select count(*) from replayfloor.receipts").fetchone() == (19,)
    assert database.execute("select count(*) from replayfloor.claims").fetchone() == (1,)


async def test_a_receipt_that_cannot_be_read_fails_the_claim_of_its_own_key(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    claims = [claim() for _ in range(10)]
    await asyncio.gather(*map(receipts.claim, claims))
    await asyncio.gather(*(receipts.finish(finish(one)) for one in claims))
    database.execute(
        "update replayfloor.receipts set response = 'x' where id = %s", (UUID(bytes=claims[3].id),)
    )
    again = [replace(one, fence=new_fence()) for one in claims]

    outcomes = await asyncio.gather(*map(receipts.claim, again), return_exceptions=True)

    assert [isinstance(one, Finished) for one in outcomes] == [n != 3 for n in range(10)]
    assert type(outcomes[3]).__name__ == "ReceiptCorrupt"


async def test_a_fence_that_was_lost_is_not_obeyed_beside_those_that_stand(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    claims = [claim() for _ in range(10)]
    await asyncio.gather(*map(receipts.claim, claims))
    finishes = [finish(one) for one in claims]
    finishes[4] = replace(finishes[4], fence=new_fence())

    done = await asyncio.gather(*map(receipts.finish, finishes))

    assert done == [n != 4 for n in range(10)]
    assert database.execute("select count(*) from replayfloor.receipts").fetchone() == (9,)


async def test_a_handler_that_holds_its_own_transaction_stalls_nobody(
    receipts: AsyncPostgresReceipts, migrated_own_url: str
) -> None:
    """It has deleted its claim and not committed; an insert of the same id would wait for it."""
    held, others = claim(), [claim() for _ in range(10)]
    await receipts.claim(held)
    async with await psycopg.AsyncConnection.connect(migrated_own_url) as own:
        assert await receipts.finish_in(own, finish(held))
        async with asyncio.timeout(3):
            answers = await asyncio.gather(
                receipts.claim(replace(held, fence=new_fence())), *map(receipts.claim, others)
            )
        await own.commit()

    assert isinstance(answers[0], InFlight)
    assert answers[1:] == [Claimed()] * 10
    answer = await receipts.claim(replace(held, fence=new_fence()))
    assert isinstance(answer, Finished)


def anew(one: Claim) -> Claim:
    """Return the claim of another request with the same key."""
    return replace(one, fence=new_fence(), reuse=Reuse.REFUSE)


async def states(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> list[tuple[Claim, type[ClaimAnswer]]]:
    """Return a claim for every state a key can be in, and what it is to be answered."""
    free, busy, orphan, live, expired, proved, mine = (claim() for _ in range(7))
    for one in (busy, orphan, live, expired, mine):
        assert await receipts.claim(one) == Claimed()
    for one in (live, expired):
        assert await receipts.finish(finish(one))
    hour = timedelta(hours=1, minutes=1)
    database.execute(
        "update replayfloor.receipts set finished_at = finished_at - %s where id = %s",
        (hour, UUID(bytes=expired.id)),
    )
    database.execute(
        "update replayfloor.claims set claimed_at = claimed_at - %s, lease_until = lease_until - %s"
        " where id = %s",
        (hour, hour, UUID(bytes=orphan.id)),
    )
    database.execute(
        "insert into replayfloor.proofs (id, used_at) values (%s, now())", (UUID(bytes=proved.id),)
    )
    return [
        (replace(free, reuse=Reuse.REFUSE), Claimed),
        (anew(busy), InFlight),
        (anew(orphan), Orphaned),
        (anew(live), Finished),
        (anew(expired), Expired),
        (replace(anew(proved), proofs=True), Expired),
        (mine, Claimed),
        (claim(reuse=Reuse.NEVER), Expired),
    ]


async def test_keys_in_every_state_are_answered_together_as_each_by_itself(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    asked = await states(receipts, database)

    answers = await asyncio.gather(*(receipts.claim(one) for one, _expected in asked))

    assert [type(answer) for answer in answers] == [expected for _one, expected in asked]
    # What was refused has left nothing behind: the claims are those of the free, busy, orphaned
    # and own ones.
    assert database.execute("select count(*) from replayfloor.claims").fetchone() == (4,)


async def test_an_orphan_is_taken_over_among_other_claims(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    asked = await states(receipts, database)
    orphan = replace(asked[2][0], takeover=True)

    answers = await asyncio.gather(receipts.claim(orphan), *(receipts.claim(claim()) for _ in "ab"))

    assert answers == [Claimed(taken_over=True), Claimed(), Claimed()]


@pytest.mark.parametrize("statement", ["claim_batch", "finish_batch"])
async def test_a_database_that_does_not_wait_for_commits_is_made_to(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection, statement: str
) -> None:
    """A claim or receipt that a crash of the server forgets is a second execution."""
    parameters: dict[str, object] = dict.fromkeys(
        ("ids", "fingerprints", "fences", "leases_ms", "retentions_ms", "statuses", "responses"),
        "{}",
    )
    with database.transaction():
        database.execute("set local synchronous_commit = off")
        database.execute(load(f"sql/postgres/{statement}.sql"), {**parameters, "proofs": False})
        row = database.execute("show synchronous_commit").fetchone()

    assert row == ("on",)


async def test_another_isolation_level_is_refused(
    receipts: AsyncPostgresReceipts, database: psycopg.Connection
) -> None:
    """The look would not see the receipt that the insert has waited for."""
    await receipts.open()
    await receipts.close()
    name = sql.Identifier(database.info.dbname)
    level = sql.SQL("alter database {} set default_transaction_isolation = 'repeatable read'")
    database.execute(level.format(name))

    with pytest.raises(psycopg.errors.InvalidTransactionState, match="READ COMMITTED"):
        await receipts.claim(claim())
