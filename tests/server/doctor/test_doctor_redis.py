"""What is wrong with a Redis is found, on a real one that is made wrong; nothing is critical."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from redis import Redis as Client

from replayfloor.server.doctor.check_redis_all import check_redis
from replayfloor.server.doctor.facts_redis import Kind, RedisFacts, Server
from replayfloor.server.doctor.findings import Finding
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.read_redis import read_redis
from server.doctor.examined import CRITICAL, NOTE, OK, WARNING, the, worse_than
from support.services import Redis, Services
from support.services.binaries import find_redis

MEGABYTE = 1_000_000
EVICTING = (
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
)


@pytest.fixture
def client(own_redis: Redis) -> Iterator[Client]:
    """A client of the server, which is as it was again afterwards."""
    with Client.from_url(own_redis.url) as made:
        before = {name: str(made.config_get(name)[name]) for name in SETTABLE}
        yield made
        for name, value in before.items():
            made.config_set(name, value)
        made.flushall()
        made.config_resetstat()


SETTABLE = (
    "maxmemory",
    "maxmemory-policy",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "maxclients",
)


def _examine(redis: Redis, limits: Limits | None = None, **more: int) -> list[Finding]:
    return check_redis(read_redis(redis.url), limits, **more)


def test_nothing_is_wrong_with_a_redis_that_is_as_it_should_be(
    own_redis: Redis, client: Client
) -> None:
    client.config_set("maxmemory", 100 * MEGABYTE)
    client.config_set("maxmemory-policy", "noeviction")

    found = _examine(own_redis)

    assert worse_than(OK, found) == {}
    assert {each.check for each in found} >= {"redis.eviction", "redis.latency", "redis.version"}
    assert all(each.seen for each in found)


@pytest.mark.parametrize("policy", EVICTING)
def test_every_policy_that_throws_keys_out_is_named_with_what_it_costs(
    own_redis: Redis, client: Client, policy: str
) -> None:
    client.config_set("maxmemory", 100 * MEGABYTE)
    client.config_set("maxmemory-policy", policy)

    found = the(_examine(own_redis), "redis.eviction")

    assert found.level is WARNING
    assert policy in found.found
    assert "no hot set" in found.why
    assert "costs no correctness" in found.why
    assert "noeviction" in found.do
    assert ("locks of requests that are being executed" in found.why) is (policy == "volatile-ttl")


def test_a_policy_that_never_comes_to_act_is_only_a_note(own_redis: Redis, client: Client) -> None:
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-policy", "allkeys-lru")

    assert the(_examine(own_redis), "redis.eviction").level is NOTE


def test_keys_that_were_thrown_out_are_counted(own_redis: Redis, client: Client) -> None:
    assert the(_examine(own_redis), "redis.evicted_keys").level is OK
    client.config_set("maxmemory-policy", "volatile-lru")
    client.config_set("maxmemory", 4 * MEGABYTE)
    for number in range(3000):
        client.set(f"k{number}", b"x" * 2000, px=60_000)

    found = the(_examine(own_redis), "redis.evicted_keys")

    assert found.level is WARNING
    assert found.data["evicted_keys"] == client.info("stats")["evicted_keys"]
    assert "costs no correctness" in found.why


def test_a_full_server_that_throws_nothing_out_is_found(own_redis: Redis, client: Client) -> None:
    client.config_set("maxmemory-policy", "noeviction")
    used = client.info("memory")["used_memory"]
    client.config_set("maxmemory", 10 * used)
    assert the(_examine(own_redis), "redis.memory").level is OK
    client.config_set("maxmemory", int(1.02 * used))

    found = the(_examine(own_redis), "redis.memory")

    assert found.level is WARNING
    assert "refuses every new lock" in found.why


def test_memory_without_a_limit_is_a_note(own_redis: Redis, client: Client) -> None:
    client.config_set("maxmemory", 0)

    assert the(_examine(own_redis), "redis.memory").level is NOTE


def test_persistence_is_said_to_be_needed_by_nothing(own_redis: Redis, client: Client) -> None:
    found = the(_examine(own_redis), "redis.persistence")
    assert found.level is OK
    assert "none is needed" in found.found
    client.config_set("appendfsync", "always")

    assert the(_examine(own_redis), "redis.persistence").level is NOTE


def test_a_server_that_refuses_to_write_for_want_of_replicas_is_found(
    own_redis: Redis, client: Client
) -> None:
    assert the(_examine(own_redis), "redis.writes").level is OK
    client.config_set("min-replicas-to-write", 1)

    found = the(_examine(own_redis), "redis.writes")

    assert found.level is WARNING
    assert "min-replicas-to-write" in found.found


def test_workers_that_need_more_connections_than_there_may_be_are_noted(
    own_redis: Redis, client: Client
) -> None:
    client.config_set("maxclients", 100)

    assert the(_examine(own_redis, workers=1), "redis.connections").level is OK
    assert the(_examine(own_redis, workers=2), "redis.connections").level is NOTE


@pytest.mark.parametrize(
    ("limits", "level"),
    [
        (Limits(), OK),
        (Limits(redis_latency_note_s=0.0), NOTE),
        (Limits(redis_latency_note_s=0.0, redis_latency_warning_s=0.0), WARNING),
    ],
)
def test_a_slow_round_trip_is_found(own_redis: Redis, limits: Limits, level: int) -> None:
    facts = read_redis(own_redis.url, clock=_steps(0.001))

    found = the(check_redis(facts, limits), "redis.latency")

    assert found.level is level
    assert found.data["median_s"] == pytest.approx(0.001)


def _steps(step_s: float) -> Callable[[], float]:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += step_s
        return now

    return clock


# -- what may not be seen, and what does not answer -----------------------------------------------


@contextmanager
def _user(client: Client, *rules: str) -> Iterator[str]:
    ask = cast("Callable[..., object]", client.execute_command)
    ask("ACL", "SETUSER", "looker", "on", ">secret", "~*", *rules)
    yield "looker:secret"
    ask("ACL", "DELUSER", "looker")


def test_where_config_is_forbidden_that_is_said_and_the_policy_is_seen_all_the_same(
    own_redis: Redis, client: Client
) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory", 100 * MEGABYTE)
    with _user(client, "+@all", "-config") as login:
        found = check_redis(read_redis(own_redis.url.replace("//", f"//{login}@")))

    assert the(found, "redis.config").seen is False
    assert the(found, "redis.config").level is NOTE
    assert the(found, "redis.eviction").level is WARNING


def test_where_info_is_forbidden_too_that_is_said(own_redis: Redis, client: Client) -> None:
    with _user(client, "+ping") as login:
        found = check_redis(read_redis(own_redis.url.replace("//", f"//{login}@")))

    assert the(found, "redis.reachable").level is OK
    unseen = {each.check for each in found if not each.seen}
    assert unseen >= {"redis.info", "redis.config", "redis.eviction", "redis.evicted_keys"}
    assert worse_than(NOTE, found) == {}


def test_a_server_that_does_not_answer_is_a_warning_and_not_critical() -> None:
    found = check_redis(read_redis("redis://:very-secret@127.0.0.1:1/0"))

    assert [(each.check, each.level) for each in found] == [("redis.reachable", WARNING)]
    assert "nothing is executed twice" in found[0].why
    assert "very-secret" not in found[0].found


def test_a_server_that_hangs_does_not_hang_the_doctor(services: Services) -> None:
    server = Redis(services.site, find_redis(), "hanging")
    services.adopt(server)
    server.freeze()
    try:
        assert the(check_redis(read_redis(server.url)), "redis.reachable").level is WARNING
    finally:
        server.thaw()
        server.stop()


def test_a_wrong_password_is_a_finding(own_redis: Redis) -> None:
    url = own_redis.url.replace("//", "//nobody:wrong@")

    found = the(check_redis(read_redis(url)), "redis.reachable")

    assert found.level is WARNING
    assert "wrong" not in found.found.replace("WRONGPASS", "")


@pytest.mark.parametrize("url", ["http://127.0.0.1", "redis://h/x", "redis://h/0?nonsense=1"])
def test_a_url_that_no_worker_would_start_with_is_critical(url: str) -> None:
    assert the(check_redis(read_redis(url)), "redis.reachable").level is CRITICAL


# -- what no server here can be made to be --------------------------------------------------------

SOUND = {"redis_version": "7.2.4", "role": "master", "maxmemory": "100", "used_memory": "1"}


def _of(**info: str) -> list[Finding]:
    server = Server("h:1", info={**SOUND, **info}, config={"save": "60 1"}, pings_s=(0.001,))
    return check_redis(RedisFacts(Kind.ONE, (server,)))


@pytest.mark.parametrize(
    ("version", "level"), [("2.6.11", WARNING), ("2.6.12", OK), ("2.4", WARNING), ("8.2.1", OK)]
)
def test_a_version_that_cannot_run_the_scripts_is_found(version: str, level: int) -> None:
    assert the(_of(redis_version=version), "redis.version").level is level


@pytest.mark.parametrize(
    "state",
    [
        {"loading": "1"},
        {"role": "slave"},
        {"aof_last_write_status": "err"},
        {"rdb_last_bgsave_status": "err"},
    ],
)
def test_whatever_keeps_a_server_from_writing_is_found(state: dict[str, str]) -> None:
    assert the(_of(), "redis.writes").level is OK
    assert the(_of(**state), "redis.writes").level is WARNING


def test_keys_that_have_ended_and_take_memory_are_noted() -> None:
    assert the(_of(expired_stale_perc="9.5"), "redis.expired_stale").level is OK
    assert the(_of(expired_stale_perc="40.1"), "redis.expired_stale").level is NOTE
