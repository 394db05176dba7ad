"""Asks Redis: INFO, CONFIG GET, PING, what sentinels and clusters say of themselves. Never a write.

Each server is asked once, with a short timeout and without a second attempt: what does not answer
is a finding. Reasons that are kept never hold a password: redis-py names hosts only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.doctor.facts_redis import (
    Kind,
    RedisFacts,
    Sentinel,
    Server,
    Words,
)
from replayfloor.server.locks.redis_url import (
    Address,
    Cluster,
    OneServer,
    Options,
    Sentinels,
    configured,
    parse,
)

STEP_S: Final = 2.0
"""How long a server is waited for: longer than the lock would, to see a slow one as slow."""

PINGS: Final = 5

NODES_MAX: Final = 100
"""Of a cluster, so many are asked."""

CONFIG_NAMES: Final = (
    "maxmemory",
    "maxmemory-policy",
    "save",
    "appendonly",
    "appendfsync",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "maxclients",
)

FAILURES: Final = (RedisError, OSError)


def read_redis(url: str, *, clock: Callable[[], float] = time.perf_counter) -> RedisFacts:
    """Return what the servers of a lock's URL say of themselves.

    `clock` gives seconds. Whatever cannot be had is a fact too; nothing is raised for it.
    """
    try:
        match configured(partial(parse, url)):
            case OneServer() as target:
                return configured(partial(_one, target, clock))
            case Sentinels() as target:
                return configured(partial(_by_sentinels, target, clock))
            case Cluster() as target:
                return configured(partial(_cluster, target, clock))
    except ConfigurationError as error:
        return RedisFacts(Kind.ONE, failed=str(error), usable=False)


def _one(target: OneServer, clock: Callable[[], float]) -> RedisFacts:
    path = target.options.get("path")
    host, port = target.options.get("host", "localhost"), target.options.get("port", 6379)
    name = str(path) if path else f"{host}:{port}"
    server = _server(name, target.options, clock, tls=target.tls)
    return RedisFacts(Kind.ONE, (server,), failed=server.failed)


def _by_sentinels(target: Sentinels, clock: Callable[[], float]) -> RedisFacts:
    asked = [
        _sentinel(address, target.service, target.sentinel_options, tls=target.tls)
        for address in target.addresses
    ]
    facts = RedisFacts(Kind.SENTINELS, sentinels=tuple(asked), service=target.service)
    for each in asked:
        host, port = each.says.get("ip"), each.says.get("port")
        if host and port:
            options = {**target.options, "host": host, "port": int(port)}
            server = _server(f"{host}:{port}", options, clock, tls=target.tls)
            return replace(facts, servers=(server,), failed=server.failed)
    return replace(facts, failed="no sentinel names a server for the service")


def _sentinel(address: Address, service: str, options: Options, *, tls: bool) -> Sentinel:
    name = _name(address)
    every = {**options, "host": address.host, "port": address.port}
    try:
        with _connected(every, tls=tls) as redis:
            says = cast("Any", redis).execute_command("SENTINEL MASTER", service)
    except FAILURES as error:
        return Sentinel(name, _reason(error))
    return Sentinel(name, says=_words(says))


def _cluster(target: Cluster, clock: Callable[[], float]) -> RedisFacts:
    facts = RedisFacts(Kind.CLUSTER)
    reasons: list[str] = []
    for address in target.addresses:
        options = {**target.options, "host": address.host, "port": address.port}
        try:
            with _connected(options, tls=target.tls) as redis:
                anyway = cast("Any", redis)
                state = _words(anyway.execute_command("CLUSTER INFO"))
                nodes = _primaries(anyway.execute_command("CLUSTER NODES"), address.host)
        except FAILURES as error:
            reasons.append(f"{_name(address)}: {_reason(error)}")
            continue
        servers = [
            _server(
                _name(node),
                {**target.options, "host": node.host, "port": node.port},
                clock,
                tls=target.tls,
            )
            for node in nodes[:NODES_MAX]
        ]
        return replace(facts, servers=tuple(servers), cluster=state)
    return replace(facts, failed="; ".join(reasons))


def _primaries(nodes: object, asked: str) -> list[Address]:
    """Return where the primaries are that have slots.

    redis-py gives a mapping from address to what is known of it; a node that was never told its
    own address says none.
    """
    found: list[Address] = []
    for place, node in cast("dict[str, dict[str, Any]]", nodes).items():
        flags = str(node.get("flags", "")).split(",")
        if "master" in flags and node.get("slots"):
            host, _colon, port = place.rpartition(":")
            found.append(Address(host or asked, int(port)))
    return found


def _server(name: str, options: Options, clock: Callable[[], float], *, tls: bool) -> Server:
    try:
        with _connected(options, tls=tls) as redis:
            anyway = cast("Any", redis)
            pings: list[float] = []
            for _ping in range(PINGS + 1):
                began = clock()
                anyway.ping()
                pings.append(clock() - began)
            info, config = _info(anyway), _config(anyway)
    except FAILURES as error:
        return Server(name, _reason(error))
    # The first one connects as well.
    return Server(name, info=info, config=config, pings_s=tuple(pings[1:]))


def _info(redis: Any) -> Words | None:  # noqa: ANN401 - redis-py's types mix both colours
    try:
        return _words(redis.info())
    except ResponseError:  # forbidden, or renamed
        return None


def _config(redis: Any) -> Words | None:  # noqa: ANN401 - redis-py's types mix both colours
    try:
        found: dict[str, str] = {}
        for name in CONFIG_NAMES:  # one by one: several at once need Redis 7
            found |= _words(redis.config_get(name))
    except ResponseError:
        return None
    return found


def _words(fields: object) -> Words:
    """Return what redis-py made of fields as texts again: it guesses their types."""
    if isinstance(fields, list):
        # A map as RESP2 has it: names and values in turn.
        flat = [str(each) for each in cast("list[object]", fields)]
        return dict(zip(flat[::2], flat[1::2], strict=False))
    return {str(name): str(value) for name, value in cast("Mapping[str, object]", fields).items()}


def _name(address: Address) -> str:
    return f"{address.host}:{address.port}"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


@contextmanager
def _connected(options: Options, *, tls: bool) -> Generator[Redis]:
    tcp = SSLConnection if tls else Connection
    kind = UnixDomainSocketConnection if "path" in options else tcp
    steps = {"socket_timeout": STEP_S, "socket_connect_timeout": STEP_S}
    together: dict[str, Any] = {
        **steps,
        **options,
        "connection_class": kind,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": True,
    }
    redis = Redis.from_pool(ConnectionPool(**together))
    try:
        yield redis
    finally:
        redis.close()
