"""Each protection of the Postgres store is taken away, and the test that guards it has to fail.

The tests named here belong to the receipts contract or stand below; what is removed is removed in
the real database, by replacing a function with the same text minus the protection.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import anyio
import psycopg
import pytest

from contract.subjects import postgres_subject
from replayfloor.core.claims import ClaimAnswer, Claimed, Finished
from replayfloor.core.errors import SchemaMissing
from replayfloor.core.receipt import encode_receipt
from replayfloor.server.resources import load, migrations
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import (
    REQUEST,
    ReceiptsContract,
    ReceiptsSubject,
    claim,
    new_fence,
    new_id,
    receipt,
)

pytestmark = pytest.mark.anyio

LOOK = """            v_present := replayfloor.now_v1();
            select r.fingerprint, r.response, r.finished_at
            into fingerprint, response, v_finished_at
            from replayfloor.receipts as r
            -- A receipt cannot be from the future: this spares the partitions made ahead.
            where r.id = p_id and r.finished_at <= v_present + interval '1 hour';
"""
INSERT = "        insert into replayfloor.claims as c"


BATCH_INSERT = "    with taken as ("
BATCH_MET = "        where v_met is null or e.id <> all (v_met)\n"


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and finishes have a statement each, as those have that cannot go with others."""
    for name in ("joins_claims", "joins_finishes"):
        monkeypatch.setattr(f"replayfloor.server.stores.postgres_async.{name}", lambda _one: False)


@pytest.fixture
def among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and finishes have the statement for several, also one that has come alone."""
    module = "replayfloor.server.stores.postgres_together_async"
    monkeypatch.setattr(f"{module}.is_single", lambda _entries: False)


@pytest.fixture
async def subject(postgres_url: str) -> AsyncIterator[ReceiptsSubject]:
    async with postgres_subject(postgres_url) as subject:
        yield subject


def replace_function(url: str, statement: str, *changes: tuple[str, str]) -> None:
    """Put the function that a statement calls back with some of its text changed."""
    text = definition_of(statement)
    for old, new in (("create function", "create or replace function"), *changes):
        assert text.count(old) == 1, f"{statement}: its function no longer holds {old!r}"
        text = text.replace(old, new)
    with psycopg.connect(url) as database:
        database.execute(text.encode())


def definition_of(statement: str) -> str:
    """Return the migration that makes the function which a statement calls."""
    call = re.search(r"replayfloor\.\w+\(", load(f"sql/postgres/{statement}.sql"))
    assert call is not None
    texts: list[str] = [load(f"sql/postgres/{name}") for name in migrations()]
    (found,) = [text for text in texts if f"create function {call[0]}" in text]
    return found


async def claim_behind_a_finish_under_way(url: str, store: AsyncPostgresReceipts) -> ClaimAnswer:
    """Claim while a transaction has finished the key and not committed yet; then commit it."""
    id_, fence = new_id(), new_fence()
    await store.claim(claim(id_, fence))
    answers: list[ClaimAnswer] = []

    async def follow() -> None:
        answers.append(await store.claim(claim(id_, new_fence())))

    async with await psycopg.AsyncConnection.connect(url) as finishing:
        values = (id_.hex(), fence.hex(), REQUEST.hex(), encode_receipt(receipt()))
        await finishing.execute(
            "select replayfloor.finish_v2(%s, %s, %s, 201::smallint, %s)", values
        )
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await _wait_until_one_waits_for_a_lock(url)
            await finishing.commit()
    return answers[0]


async def _wait_until_one_waits_for_a_lock(url: str) -> None:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher:
        with anyio.fail_after(10):
            # No event to wait for: what happens, happens in another process.
            while (await (await watcher.execute(query)).fetchone()) == (0,):  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.mark.usefixtures("one_by_one")
async def test_a_claim_that_waited_for_a_finish_sees_its_receipt(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    assert isinstance(subject.receipts, AsyncPostgresReceipts)

    answer = await claim_behind_a_finish_under_way(postgres_url, subject.receipts)

    assert answer == Finished(receipt())


@pytest.mark.usefixtures("one_by_one")
async def test_with_the_look_before_the_insert_a_finished_key_is_claimed_again(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    assert isinstance(subject.receipts, AsyncPostgresReceipts)
    replace_function(
        postgres_url, "claim", (LOOK, ""), (INSERT, LOOK + INSERT),
        ("if not found then\n                reused", "if v_finished_at is null then\n"
         "                reused"),
    )  # fmt: skip

    answer = await claim_behind_a_finish_under_way(postgres_url, subject.receipts)

    assert answer == Claimed()


async def test_under_a_single_snapshot_a_claim_is_refused(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    await subject.receipts.open()
    a = new_id().hex()
    values = {"id": a, "fingerprint": a, "fence": a, "lease_ms": 1000, "takeover": False}
    values |= {"retention_ms": None, "reuse": "tell", "proofs": False}
    with psycopg.connect(postgres_url) as database:
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(psycopg.errors.InvalidTransactionState, match="READ COMMITTED"):
            database.execute(load("sql/postgres/claim.sql"), values)


async def test_without_the_unique_index_the_store_does_not_open(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    with psycopg.connect(postgres_url) as database:
        database.execute("drop index replayfloor.claims_id")

    with pytest.raises(SchemaMissing, match="claims_id"):
        await subject.receipts.open()


async def test_if_the_unique_index_goes_while_serving_nothing_is_claimed(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    await subject.receipts.open()
    with psycopg.connect(postgres_url) as database:
        database.execute("drop index replayfloor.claims_id")

    with pytest.raises(psycopg.errors.InvalidColumnReference):
        await subject.receipts.claim(claim(new_id(), new_fence()))


@pytest.mark.usefixtures("one_by_one")
async def test_without_index_and_conflict_target_several_claim_one_key(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    for store in (subject.receipts, subject.other):
        await store.open()
    replace_function(
        postgres_url, "claim", ("on conflict (id) do nothing", "on conflict do nothing")
    )
    with psycopg.connect(postgres_url) as database:
        database.execute("drop index replayfloor.claims_id")

    with pytest.raises(AssertionError):
        await ReceiptsContract().test_of_simultaneous_claims_exactly_one_is_claimed(subject)


@pytest.mark.usefixtures("one_by_one")
async def test_without_the_fence_a_stale_owner_finishes_and_its_effect_stays(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    replace_function(
        postgres_url,
        "finish",
        ("where id = p_id and fence = p_fence", "where id = p_id"),
    )
    contract = ReceiptsContract()

    with pytest.raises(AssertionError):
        await contract.test_a_finish_with_another_fence_is_refused(subject)
    with pytest.raises(AssertionError):
        await contract.test_a_commit_of_a_lost_claim_rolls_the_effect_back(subject)


@pytest.mark.usefixtures("one_by_one")
async def test_without_the_lease_a_live_claim_is_taken_over(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    replace_function(
        postgres_url, "claim",
        ("elsif age_ms > 0 then", "elsif false then"),
        (" and c.lease_until <= v_now;", ";"),
    )  # fmt: skip

    with pytest.raises(AssertionError):
        await ReceiptsContract().test_a_claimed_key_is_in_flight_for_others(subject)


# -- the same for what several requests share ------------------------------------------------------


@pytest.mark.usefixtures("among_others")
async def test_a_shared_claim_that_waited_for_a_finish_sees_its_receipt(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    """It waits only if the claim went between its first look and its insert: here, always."""
    assert isinstance(subject.receipts, AsyncPostgresReceipts)
    replace_function(postgres_url, "claim_batch", (BATCH_MET, ""))

    answer = await claim_behind_a_finish_under_way(postgres_url, subject.receipts)

    assert answer == Finished(receipt())


@pytest.mark.usefixtures("among_others")
async def test_with_the_look_before_the_insert_a_finished_key_is_claimed_again_among_others(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    assert isinstance(subject.receipts, AsyncPostgresReceipts)
    look_first = (
        "    select array_agg(r.id) into v_seen from replayfloor.receipts as r"
        " where r.id = any (p_ids);\n"
    )
    replace_function(
        postgres_url,
        "claim_batch",
        (BATCH_MET, ""),
        ("    v_met uuid[];\n", "    v_met uuid[];\n    v_seen uuid[];\n"),
        (BATCH_INSERT, look_first + BATCH_INSERT),
        ("where r.id = any (v_ids) and", "where r.id = any (v_seen) and"),
    )

    answer = await claim_behind_a_finish_under_way(postgres_url, subject.receipts)

    assert answer == Claimed()


@pytest.mark.usefixtures("among_others")
async def test_without_index_and_conflict_target_several_claim_one_key_together(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    for store in (subject.receipts, subject.other):
        await store.open()
    replace_function(
        postgres_url,
        "claim_batch",
        ("on conflict (id) do nothing", "on conflict do nothing"),
        (BATCH_MET, ""),
    )
    with psycopg.connect(postgres_url) as database:
        database.execute("drop index replayfloor.claims_id")

    with pytest.raises(AssertionError):
        await ReceiptsContract().test_of_simultaneous_claims_exactly_one_is_claimed(subject)


@pytest.mark.usefixtures("among_others")
async def test_without_the_fence_a_stale_owner_finishes_among_others(
    postgres_url: str, subject: ReceiptsSubject
) -> None:
    replace_function(
        postgres_url,
        "finish_batch",
        ("where c.id = e.id and c.fence = e.fence", "where c.id = e.id"),
        ("returning c.id, c.fence, c.claimed_at", "returning c.id, e.fence, c.claimed_at"),
    )

    with pytest.raises(AssertionError):
        await ReceiptsContract().test_a_finish_with_another_fence_is_refused(subject)
