"""Nodes of a Redis Cluster that fail: the lock answers all the while, and works again with the
node that takes over."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial

import pytest

from replayfloor.core.claims import Acquired, Held, LockUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks.redis_wire import key_of
from replayfloor.testing.contract import new_id
from server.redis_locks import (
    AT_ONCE_S,
    ONE_WAIT_S,
    PATIENT_S,
    WAIT_S,
    Colour,
    all_at_once,
    both_colours,
    longest_s,
    measured,
    opened,
    opened_both,
    timed,
    until,
    until_it_works,
)
from support.services import Redis, RedisCluster
from support.services.redis_words import ask, replication

pytestmark = pytest.mark.anyio

MANY = 16


@pytest.fixture(autouse=True)
def _nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def ids_at(cluster: RedisCluster, node: Redis, *, elsewhere: bool = False) -> list[ReceiptId]:
    """Return ids whose locks a node is in charge of, or is not."""
    ids: list[ReceiptId] = []
    while len(ids) < MANY:
        id_ = new_id()
        if (cluster.primary_of(key_of(id_)) is node) != elsewhere:
            ids.append(id_)
    return ids


@pytest.fixture
def primary(redis_cluster: RedisCluster) -> Redis:
    """One of the primaries."""
    return redis_cluster.primary_of(key_of(new_id()))


async def test_a_primary_is_killed_and_the_lock_works_with_its_replica(
    redis_cluster: RedisCluster, primary: Redis
) -> None:
    ids = ids_at(redis_cluster, primary)
    others = ids_at(redis_cluster, primary, elsewhere=True)
    async with opened_both(redis_cluster.url) as locks:
        for each in locks:
            assert isinstance(await each.try_one(ids[0]), Acquired | Held)
        primary.crash()
        for each in locks:
            assert await each.try_one(ids[1]) == LockUnavailable()
            each.clock.let_probe()
        for each in locks:
            # The replica had these locks, or had not got them yet; both are answers.
            await until_it_works(each, ids[0])
            assert isinstance(await each.try_one(ids[1]), Acquired | Held)
            assert isinstance(await each.try_one(others[0]), Acquired | Held)


@both_colours
async def test_a_frozen_primary_costs_its_own_keys_one_wait_and_the_others_nothing(
    redis_cluster: RedisCluster, colour: Colour
) -> None:
    async def is_quick() -> bool:
        redis_cluster.restore()
        primary = redis_cluster.primary_of(key_of(new_id()))
        ids = ids_at(redis_cluster, primary)
        others = ids_at(redis_cluster, primary, elsewhere=True)
        async with opened(colour, redis_cluster.url, WAIT_S) as each:
            await all_at_once([partial(each.try_one, id_) for id_ in (*ids, *others)])
            primary.freeze()
            during = await all_at_once([partial(each.try_one, id_) for id_ in ids])
            after = await all_at_once([partial(each.try_one, id_) for id_ in ids])
            elsewhere = await all_at_once([partial(each.try_one, id_) for id_ in others])

        return (
            {answer for answer, _ in during + after} == {LockUnavailable()}
            and all(isinstance(answer, Held) for answer, _ in elsewhere)
            and longest_s(during) < ONE_WAIT_S
            and longest_s(after) < AT_ONCE_S
        )

    await measured(is_quick)


@both_colours
async def test_a_frozen_primary_is_left_for_the_node_that_takes_over(
    redis_cluster: RedisCluster, primary: Redis, colour: Colour
) -> None:
    id_, *_ = ids_at(redis_cluster, primary)
    replica = redis_cluster.replica_of(key_of(id_))
    async with opened(colour, redis_cluster.url) as each:
        await each.try_one(id_)
        primary.freeze()
        assert await each.try_one(id_) == LockUnavailable()
        redis_cluster.promote(replica)
        await until_it_works(each, id_)


@both_colours
async def test_a_cluster_that_is_frozen_altogether_costs_one_wait(
    redis_cluster: RedisCluster, colour: Colour
) -> None:
    id_ = new_id()

    async def is_quick() -> bool:
        redis_cluster.restore()
        async with opened(colour, redis_cluster.url, WAIT_S) as each:
            await all_at_once([partial(each.try_one, id_)] * MANY)
            for node in redis_cluster.nodes:
                node.freeze()
            results = await all_at_once([partial(each.try_one, id_)] * MANY)
            later, later_s = await timed(each.try_one(id_))
        assert {answer for answer, _ in results} | {later} == {LockUnavailable()}
        return longest_s(results) < ONE_WAIT_S and later_s < AT_ONCE_S

    await measured(is_quick)


async def test_a_cluster_that_is_away_when_the_lock_is_made_is_found_later(
    redis_cluster: RedisCluster,
) -> None:
    for node in redis_cluster.nodes:
        node.crash()
    async with opened_both(redis_cluster.url) as locks:
        for each in locks:
            results = await all_at_once([each.try_one] * MANY)
            assert {answer for answer, _ in results} == {LockUnavailable()}
        redis_cluster.restore()
        for each in locks:
            await until_it_works(each)


async def test_a_shard_that_is_lost_altogether_does_not_take_the_others_with_it(
    redis_cluster: RedisCluster, primary: Redis
) -> None:
    lost = ids_at(redis_cluster, primary)
    others = ids_at(redis_cluster, primary, elsewhere=True)
    replica = redis_cluster.replica_of(key_of(lost[0]))
    async with opened_both(redis_cluster.url, PATIENT_S) as locks:
        for each in locks:
            await each.try_one(lost[0])
        replica.crash()
        primary.crash()
        for each in locks:
            assert await each.try_one(lost[1]) == LockUnavailable()
            results = await all_at_once([partial(each.try_one, id_) for id_ in others])
            assert all(isinstance(answer, Acquired | Held) for answer, _ in results)


async def test_a_slot_that_nobody_serves_does_not_take_the_others_with_it(
    redis_cluster: RedisCluster, primary: Redis
) -> None:
    lost, *_ = ids_at(redis_cluster, primary)
    slot = ask(primary.port, "CLUSTER", "KEYSLOT", key_of(lost))
    for node in redis_cluster.nodes:
        ask(node.port, "CLUSTER", "DELSLOTS", slot)
    try:
        async with opened_both(redis_cluster.url, PATIENT_S) as locks:
            for each in locks:
                assert await each.try_one() == Acquired()
                assert await each.try_one(lost) == LockUnavailable()
    finally:
        ask(primary.port, "CLUSTER", "ADDSLOTS", slot)


@both_colours
async def test_a_planned_change_of_the_primary_is_not_noticed(
    redis_cluster: RedisCluster, primary: Redis, colour: Colour
) -> None:
    ids = [id_ for _ in range(4) for id_ in ids_at(redis_cluster, primary)]
    replica = redis_cluster.replica_of(key_of(ids[0]))
    async with opened(colour, redis_cluster.url, PATIENT_S) as each:
        await each.try_one(ids.pop())
        ask(replica.port, "CLUSTER", "FAILOVER")
        await until(lambda: replication(primary.port)["role"] == "slave")
        results = await all_at_once([partial(each.try_one, id_) for id_ in ids])

        assert {answer for answer, _ in results} == {Acquired()}


async def test_when_no_node_is_left_the_url_s_addresses_are_tried_again(
    redis_cluster: RedisCluster,
) -> None:
    """Their names may mean new servers by now; what the cluster told of itself is out of date."""
    with socket.create_server(("127.0.0.1", 0)) as named:
        named.setblocking(False)
        url = redis_cluster.url.replace("//", f"//127.0.0.1:{named.getsockname()[1]},")
        async with opened_both(url) as locks:
            for each in locks:
                await until_it_works(each)
            for node in redis_cluster.nodes:
                node.crash()
            for each in locks:
                asked(named)
                for _ in range(4):
                    await each.try_one()
                    each.clock.let_probe()
                assert asked(named)


def asked(listener: socket.socket) -> bool:
    """Say whether anybody has connected since the last call; nobody gets an answer."""
    connections = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            connections += 1
    return connections > 0
