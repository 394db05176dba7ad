"""What requests do to the schema: nothing. And what the claims keep through a takeover."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from contract.subjects import blocking_postgres_subject, postgres_subject
from replayfloor.core.claims import Abandon, Claimed, Finish, Renew
from replayfloor.server.resources import load
from replayfloor.server.stores.migrate import migrate
from replayfloor.testing.contract import (
    AFTER_SHORT_MS,
    SHORT_MS,
    ReceiptsSubject,
    claim,
    new_fence,
    new_id,
    receipt,
)

pytestmark = pytest.mark.anyio

REFUSE_DDL = """
create function refuse_ddl() returns event_trigger language plpgsql as $$
begin raise exception 'DDL at request time: %', tg_tag; end $$;
create event trigger refuse_ddl on ddl_command_start execute function refuse_ddl();
"""


@pytest.fixture(params=["async", "blocking"])
async def subject(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[ReceiptsSubject]:
    """Two stores of a colour, none of which has been opened."""
    made = postgres_subject if request.param == "async" else blocking_postgres_subject
    async with made(postgres_url) as subject:
        yield subject


async def test_no_operation_runs_ddl(subject: ReceiptsSubject, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute(REFUSE_DDL)
        with pytest.raises(psycopg.errors.RaiseException, match="DDL"):
            database.execute("create table refused ()")

    await subject.receipts.open()
    for end in ("finish", "abandon", "commit", "rollback", "own"):
        id_, fence = new_id(), new_fence()
        assert await subject.receipts.claim(claim(id_, fence)) == Claimed()
        assert await subject.receipts.renew(Renew(id_, fence, 1000))
        assert await _end(subject, end, Abandon(id_, fence), Finish(id_, fence, receipt()))


async def _end(subject: ReceiptsSubject, end: str, abandon: Abandon, finish: Finish) -> bool:
    if end == "finish":
        return await subject.receipts.finish(finish)
    if end == "abandon":
        return await subject.receipts.abandon(abandon)
    if end == "own":
        async with subject.own() as own:
            finished = await subject.receipts.finish_in(own.connection, finish)
            await own.commit()
            return finished
    transaction = await subject.receipts.begin()
    await subject.write(transaction.connection, finish.id)
    if end == "commit":
        return await transaction.commit(finish)
    await transaction.rollback()
    return True


async def test_a_takeover_leaves_when_the_key_was_first_claimed(
    subject: ReceiptsSubject, postgres_url: str
) -> None:
    id_, new = new_id(), new_fence()
    await subject.receipts.claim(claim(id_, new_fence(), SHORT_MS))
    claimed_at = _claimed_at(postgres_url)
    await subject.pass_ms(AFTER_SHORT_MS)

    assert await subject.other.claim(claim(id_, new, takeover=True)) == Claimed(taken_over=True)
    assert _claimed_at(postgres_url) == claimed_at
    await subject.other.finish(Finish(id_, new, receipt()))
    assert _took_ms(postgres_url) >= AFTER_SHORT_MS


async def test_a_worker_of_an_older_release_shares_keys_with_this_one(
    subject: ReceiptsSubject, postgres_url: str
) -> None:
    id_, fence = new_id(), new_fence()
    values = (id_.hex(), id_.hex(), fence.hex())
    older = b"select state from replayfloor.claim_v1(%s, %s, %s, 60000, false)"
    with psycopg.connect(postgres_url, autocommit=True) as database:
        assert database.execute(older, values).fetchone() == ("claimed",)
        assert not isinstance(await subject.receipts.claim(claim(id_, new_fence())), Claimed)
        assert await subject.receipts.finish(Finish(id_, fence, receipt()))
        assert database.execute(older, values).fetchone() == ("finished",)


async def test_partitions_that_leave_out_today_are_found(postgres_url: str) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as database:
        query = load("sql/postgres/state.sql")
        covered = database.execute(query).fetchone()
        # One in half a year, behind a gap, does not make it longer.
        database.execute(
            "create table replayfloor.beyond partition of replayfloor.receipts"
            " for values from (now() + interval '1 year') to (now() + interval '2 years')"
        )
        beyond = database.execute(query).fetchone()

    assert covered is not None
    assert beyond is not None
    assert abs((covered[1] - beyond[1]).total_seconds()) < 60


def _claimed_at(url: str) -> object:
    with psycopg.connect(url, autocommit=True) as database:
        return database.execute("select claimed_at from replayfloor.claims").fetchone()


def _took_ms(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as database:
        row = database.execute("select took_ms from replayfloor.receipts").fetchone()
    assert row is not None
    return int(row[0])
