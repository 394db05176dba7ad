"""The receipts contract on two Postgres servers with half of the keys each; one of them is away."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from contract.sharded_subjects import (
    blocking_sharded_subject,
    both_colours,
    id_of,
    place,
    sharded_subject,
)
from replayfloor.core.claims import Claimed, Finish
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.retention import RetentionTooShort
from replayfloor.server.declared import declaration_of
from replayfloor.server.stores.policies import Declaration, PolicyState
from replayfloor.server.stores.shard_places import SHARDS_MAX, place_of
from replayfloor.server.stores.sharded import ShardedReceipts
from replayfloor.server.stores.sharded_async import AsyncShardedReceipts
from replayfloor.testing.contract import (
    ReceiptsContract,
    ReceiptsSubject,
    claim,
    new_fence,
    new_id,
    receipt,
)
from replayfloor.testing.threads import in_threads
from support.services import Postgres

SOON_S = 1.0
"""How long an operation may take here, so that a server that is away is not waited for."""


class TestAsyncShardedReceipts(ReceiptsContract):
    """AsyncShardedReceipts on two servers."""

    @pytest.fixture
    async def subject(self, shard_urls: tuple[str, str]) -> AsyncIterator[ReceiptsSubject]:
        async with sharded_subject(shard_urls) as subject:
            yield subject


@pytest.mark.slow  # the colours share the routing and the SQL
class TestShardedReceipts(ReceiptsContract):
    """ShardedReceipts on two servers, each call in a thread of its own."""

    @pytest.fixture
    async def subject(self, shard_urls: tuple[str, str]) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_sharded_subject(shard_urls) as subject:
            yield subject


# -- where a key is ------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 64, SHARDS_MAX])
def test_python_and_postgres_agree_on_the_place_of_every_key(
    shard_urls: tuple[str, str], shards: int
) -> None:
    with psycopg.connect(shard_urls[0]) as database:
        rows = database.execute(
            "select uuid_send(replayfloor.shard_begins_v1(n, %s)) from generate_series(1, %s) as n",
            (shards, shards),
        ).fetchall()
    begins = [int.from_bytes(row[0]) for row in rows]

    for number, first in enumerate(begins, 1):
        assert place_of(ReceiptId(first.to_bytes(16)), shards) == number
        if number > 1:
            assert place_of(ReceiptId((first - 1).to_bytes(16)), shards) == number - 1
    assert begins[0] == 0
    assert place_of(ReceiptId(b"\xff" * 16), shards) == shards


def test_twice_as_many_shards_are_made_of_copies() -> None:
    for id_ in (new_id() for _ in range(1000)):
        assert (place_of(id_, 6) + 1) // 2 == place_of(id_, 3)


@pytest.mark.anyio
async def test_each_receipt_is_in_one_database_and_both_are_used(
    shard_urls: tuple[str, str],
) -> None:
    store = AsyncShardedReceipts(shard_urls)
    ids = [new_id() for _ in range(40)]
    for id_ in ids:
        fence = new_fence()
        await store.claim(claim(id_, fence))
        await store.finish(Finish(id_, fence, receipt()))
    await store.close()
    found: list[set[str]] = []
    for url in shard_urls:
        with psycopg.connect(url) as database:
            query = "select replace(id::text, '-', '') from replayfloor.receipts"
            found.append({row[0] for row in database.execute(query)} & {id_.hex() for id_ in ids})

    assert found == [{id_.hex() for id_ in ids if store.place_of(id_) == n} for n in (1, 2)]
    assert all(found)


@pytest.mark.anyio
async def test_a_transaction_is_not_opened_in_any_database_without_its_key(
    shard_urls: tuple[str, str],
) -> None:
    store = AsyncShardedReceipts(shard_urls)
    with pytest.raises(ConfigurationError, match="follows from the key"):
        await store.begin()
    with pytest.raises(ConfigurationError, match="follows from the key"):
        ShardedReceipts(shard_urls).begin()


# -- one shard is away ---------------------------------------------------------------------------


@pytest.mark.anyio
@both_colours
async def test_while_a_shard_is_away_the_keys_of_the_others_are_served(
    fresh_urls: tuple[str, str], second_server: Postgres, blocking: bool
) -> None:
    place(fresh_urls)
    store = (
        in_threads(ShardedReceipts(fresh_urls, operation_s=SOON_S))
        if blocking
        else AsyncShardedReceipts(fresh_urls, operation_s=SOON_S)
    )
    await store.open()
    second_server.crash()

    with pytest.raises(StoreUnavailable):
        await store.claim(claim(id_of(2), new_fence()))
    id_, fence = id_of(1), new_fence()
    assert await store.claim(claim(id_, fence)) == Claimed()
    assert await store.finish(Finish(id_, fence, receipt()))
    second_server.start()
    assert await store.claim(claim(id_of(2), new_fence())) == Claimed()
    await store.close()


@pytest.mark.anyio
@both_colours
async def test_a_shard_that_was_away_at_the_start_is_told_the_retention_before_its_first_claim(
    fresh_urls: tuple[str, str], second_server: Postgres, blocking: bool
) -> None:
    place(fresh_urls)
    await note(fresh_urls[1], retention_s=7200)
    second_server.crash()
    store = (
        in_threads(ShardedReceipts(fresh_urls, operation_s=SOON_S))
        if blocking
        else AsyncShardedReceipts(fresh_urls, operation_s=SOON_S)
    )
    with pytest.raises(StoreUnavailable, match="shard 2 of 2: "):
        await store.open()
    declared = await store.declare(declaration(3600))
    assert declared.state is PolicyState.FIRST
    assert await store.claim(claim(id_of(1), new_fence())) == Claimed()
    second_server.start()
    await store.open()  # which does not wait for the pause after a failure

    for _again in range(2):
        with pytest.raises(RetentionTooShort):
            await store.claim(claim(id_of(2), new_fence()))
    await store.close()


@pytest.mark.anyio
async def test_a_retention_that_is_too_short_for_one_shard_is_refused_for_all(
    fresh_urls: tuple[str, str],
) -> None:
    place(fresh_urls)
    await note(fresh_urls[1], retention_s=7200)
    store = AsyncShardedReceipts(fresh_urls)
    assert (await store.declare(declaration(3600))).state is PolicyState.REFUSED
    assert (await store.declare(declaration(7200))).state is PolicyState.CHANGED
    assert (await store.declare(declaration(7200))).state is PolicyState.SAME
    await store.close()


def declaration(retention_s: float) -> Declaration:
    """Return what a middleware declares."""
    made = declaration_of("default", retention_s, None, accept_shorter=False)
    assert made is not None
    return made


async def note(url: str, *, retention_s: float) -> None:
    """Note a retention in one of the databases, as another deployment may have done."""
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(
            "insert into replayfloor.policies (namespace, digest, retention_s, text, noted_at)"
            " values ('default', 'other', %s, 'other', now())",
            (retention_s,),
        )
