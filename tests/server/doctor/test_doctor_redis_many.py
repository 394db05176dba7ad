"""What is wrong with sentinels and clusters is found, on real ones that lose a server."""

from __future__ import annotations

import pytest

from replayfloor.server.doctor.check_redis_all import check_redis
from replayfloor.server.doctor.facts_redis import Kind, RedisFacts, Sentinel, Server
from replayfloor.server.doctor.findings import Finding
from replayfloor.server.doctor.read_redis import read_redis
from server.doctor.examined import NOTE, OK, WARNING, the, worse_than
from support.services import RedisCluster, RedisSentinels


def test_a_replica_instead_of_the_primary_is_found(redis_sentinels: RedisSentinels) -> None:
    (replica,) = (each for each in redis_sentinels.servers if each is not redis_sentinels.primary)

    found = the(check_redis(read_redis(replica.url)), "redis.writes")

    assert found.level is WARNING
    assert "replica" in found.found


def test_sentinels_that_agree_are_fine_and_one_that_is_silent_is_found(
    redis_sentinels: RedisSentinels,
) -> None:
    found = check_redis(read_redis(redis_sentinels.url))
    assert the(found, "redis.sentinels").level is OK
    assert the(found, "redis.reachable").level is OK
    assert the(found, "redis.eviction").level is OK
    redis_sentinels.sentinels[0].crash()

    found = check_redis(read_redis(redis_sentinels.url))

    assert the(found, "redis.sentinels").level is WARNING
    assert the(found, "redis.reachable").level is OK
    redis_sentinels.restore()


def test_a_sentinel_named_as_if_it_held_locks_is_found(redis_sentinels: RedisSentinels) -> None:
    found = check_redis(read_redis(redis_sentinels.sentinels[0].url))

    assert the(found, "redis.mode").level is WARNING


@pytest.mark.parametrize(
    ("says", "fault"),
    [
        ({"flags": "master,s_down"}, "down"),
        ({"num-other-sentinels": "0"}, "have to agree"),
        ({"num-slaves": "0"}, "no replica"),
        ({"port": "2"}, "different servers"),
    ],
)
def test_what_sentinels_say_is_judged(says: dict[str, str], fault: str) -> None:
    usual = {
        "ip": "h", "port": "1", "flags": "master", "num-other-sentinels": "2",
        "quorum": "2", "num-slaves": "1",
    }  # fmt: skip
    servers = (Server("h:1"),)

    def judged(second: dict[str, str]) -> Finding:
        sentinels = (Sentinel("a", says=usual), Sentinel("b", says=second))
        facts = RedisFacts(Kind.SENTINELS, servers, sentinels, "locks")
        return the(check_redis(facts), "redis.sentinels")

    assert judged(usual).level is OK
    assert judged({**usual, **says}).level is WARNING
    assert fault in judged({**usual, **says}).found


def test_each_primary_of_a_cluster_is_looked_at_and_a_lost_one_is_found(
    redis_cluster: RedisCluster,
) -> None:
    found = check_redis(read_redis(redis_cluster.url))
    assert the(found, "redis.cluster").level is OK
    assert len({each.where for each in found if each.check == "redis.eviction"}) == 3
    lost = redis_cluster.primary_of("a")
    lost.crash()

    found = check_redis(read_redis(redis_cluster.url))

    assert worse_than(NOTE, found).keys() & {"redis.reachable", "redis.cluster"}
    redis_cluster.restore()


def test_a_node_of_a_cluster_named_as_a_single_server_is_found(
    redis_cluster: RedisCluster,
) -> None:
    found = check_redis(read_redis(redis_cluster.nodes[0].url))

    assert the(found, "redis.mode").level is WARNING
    assert "redis+cluster://" in the(found, "redis.mode").do


@pytest.mark.parametrize(
    "fault",
    [
        {"cluster_state": "fail"},
        {"cluster_slots_fail": "5461"},
        {"cluster_slots_pfail": "1"},
        {"cluster_slots_assigned": "16000"},
    ],
)
def test_a_cluster_with_a_hole_is_found(fault: dict[str, str]) -> None:
    whole = {
        "cluster_state": "ok", "cluster_slots_fail": "0", "cluster_slots_pfail": "0",
        "cluster_slots_assigned": "16384", "cluster_size": "3",
    }  # fmt: skip

    def level(state: dict[str, str]) -> int:
        facts = RedisFacts(Kind.CLUSTER, (Server("h:1", info={}),), cluster=state)
        return the(check_redis(facts), "redis.cluster").level

    assert level(whole) is OK
    assert level({**whole, **fault}) is WARNING
