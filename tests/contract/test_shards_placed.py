"""A database knows its place among the shards: wrong lists, and more shards, do no harm."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from contract.sharded_subjects import (
    both_colours,
    id_of,
    place,
)
from replayfloor.core.claims import Claimed, Finish, Finished
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.sharded import ShardedReceipts
from replayfloor.server.stores.sharded_async import AsyncShardedReceipts
from replayfloor.testing.contract import (
    claim,
    new_fence,
    receipt,
)
from replayfloor.testing.threads import in_threads
from support.services import Services


async def open_with(urls: tuple[str, ...], *, blocking: bool) -> None:
    """Open a store and close it again."""
    if blocking:
        store = in_threads(ShardedReceipts(urls))
        await store.open()
        await store.close()
    else:
        asynchronous = AsyncShardedReceipts(urls)
        await asynchronous.open()
        await asynchronous.close()


@pytest.mark.anyio
@both_colours
async def test_shards_in_another_order_or_number_are_refused(
    shard_urls: tuple[str, str], blocking: bool
) -> None:
    first, second = shard_urls
    with pytest.raises(ConfigurationError, match=r"is shard . of 2, and was given as shard . of 2"):
        await open_with((second, first), blocking=blocking)
    with pytest.raises(ConfigurationError, match="is shard 1 of 2, and was given as shard 1 of 1"):
        await open_with((first,), blocking=blocking)
    with pytest.raises(ConfigurationError, match=r"given as shard . of 3"):
        await open_with((first, second, f"{second}?application_name=3"), blocking=blocking)
    await open_with(shard_urls, blocking=blocking)


@pytest.mark.anyio
@both_colours
async def test_a_database_that_was_told_of_no_place_is_refused(
    fresh_urls: tuple[str, str], blocking: bool
) -> None:
    with pytest.raises(ConfigurationError, match=r"place_shard_v1\(., 2\)"):
        await open_with(fresh_urls, blocking=blocking)


@pytest.mark.anyio
@both_colours
async def test_a_database_whose_check_is_gone_is_refused(
    fresh_urls: tuple[str, str], blocking: bool
) -> None:
    place(fresh_urls)
    with psycopg.connect(fresh_urls[1]) as database:
        database.execute("alter table replayfloor.claims drop constraint claims_are_of_this_shard")
    with pytest.raises(ConfigurationError, match="check claims_are_of_this_shard is gone"):
        await open_with(fresh_urls, blocking=blocking)


@pytest.mark.parametrize("urls", ["postgresql://a/b", [], [None], ["postgresql://a"] * 2])
def test_what_is_no_list_of_different_databases_is_refused(urls: list[str]) -> None:
    for kind in (AsyncShardedReceipts, ShardedReceipts):
        with pytest.raises(ConfigurationError, match="shards: "):
            kind(urls)


# -- more shards ---------------------------------------------------------------------------------


@pytest.mark.anyio
@both_colours
async def test_a_store_that_has_outlived_a_move_of_keys_claims_none_of_them(
    fresh_urls: tuple[str, str], blocking: bool
) -> None:
    place(fresh_urls)
    old = in_threads(ShardedReceipts(fresh_urls)) if blocking else AsyncShardedReceipts(fresh_urls)
    await old.claim(claim(id_of(1), new_fence()))
    with psycopg.connect(fresh_urls[0]) as database:
        database.execute("select replayfloor.place_shard_v1(1, 4, true)")
    stays, moved = id_of(1, 4), id_of(2, 4)

    assert await old.claim(claim(stays, new_fence())) == Claimed()
    with pytest.raises(StoreUnavailable, match="is not shard 1 of 2 any more") as refused:
        await old.claim(claim(moved, new_fence()))
    assert refused.value.performed is False
    await old.close()


@pytest.mark.anyio
async def test_a_store_that_knows_of_no_shards_claims_no_key_of_others(
    shard_urls: tuple[str, str],
) -> None:
    store = AsyncPostgresReceipts(shard_urls[0])
    assert await store.claim(claim(id_of(1), new_fence())) == Claimed()
    with pytest.raises(psycopg.errors.CheckViolation, match="claims_are_of_this_shard"):
        await store.claim(claim(id_of(2), new_fence()))
    await store.close()


@pytest.mark.anyio
@pytest.mark.parametrize("finished", [False, True])
async def test_a_database_with_keys_of_others_does_not_become_a_shard(
    fresh_urls: tuple[str, str], finished: bool
) -> None:
    url, _unused = fresh_urls
    store, id_, fence = AsyncPostgresReceipts(url), id_of(2), new_fence()
    await store.claim(claim(id_, fence))
    if finished:
        await store.finish(Finish(id_, fence, receipt()))
    await store.close()
    with psycopg.connect(url, autocommit=True) as database:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="than 1 of 2"):
            database.execute("select replayfloor.place_shard_v1(1, 2)")
        database.execute("select replayfloor.place_shard_v1(2, 2)")


@pytest.mark.anyio
async def test_a_database_that_is_copied_becomes_two_shards_and_forgets_nobodys_key(
    services: Services, fresh_urls: tuple[str, str]
) -> None:
    first, _unused = fresh_urls
    place((first,))
    one = AsyncShardedReceipts([first])
    keys = [(id_of(number), new_fence()) for number in (1, 2, 1, 2)]
    for id_, fence in keys:
        await one.claim(claim(id_, fence))
    for id_, fence in keys[:2]:
        await one.finish(Finish(id_, fence, receipt()))
    await one.close()
    template = urlsplit(first).path.lstrip("/")
    copy = services.postgres.database("copied_shard", template=template)
    for number, url in enumerate((first, copy), 1):
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("select replayfloor.place_shard_v1(%s, 2, true)", (number,))

    two = AsyncShardedReceipts([first, copy])
    for id_, _fence in keys[:2]:
        assert await two.claim(claim(id_, new_fence())) == Finished(receipt())
    for id_, fence in keys[2:]:
        assert await two.finish(Finish(id_, fence, receipt()))
    for url in (first, copy):
        with psycopg.connect(url) as database:
            assert database.execute("select count(*) from replayfloor.claims").fetchone() == (0,)
    await two.close()
    services.postgres.drop("copied_shard")
