"""Sets up redis-py for AsyncRedisLock: from a URL, or a client that was passed in. Nothing is
connected. redis_open.py is the other colour.
"""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.locks.redis_clients_async import (
    AsyncClient,
    AsyncClusterClient,
    AsyncPassedClusterClient,
    AsyncSingleClient,
)
from replayfloor.server.locks.redis_limits import (
    RETRIES,
    cluster_options,
    sentinel_step_s,
    step_options,
    whole_options,
)
from replayfloor.server.locks.redis_url import (
    Cluster,
    OneServer,
    Options,
    Sentinels,
    check_options,
    configured,
    parse,
)


def connect(client: str | Redis | RedisCluster, timeout_s: float) -> AsyncClient:
    """Return a URL's client, or one that was passed in; nothing is connected yet.

    Raises ConfigurationError.
    """
    match client:
        case Redis():
            _check_passed(client)
            return AsyncSingleClient(client)
        case RedisCluster():
            _check_passed(client)
            return AsyncPassedClusterClient(client)
        case str():
            return configured(lambda: _open(client, timeout_s))
        case _:
            raise ConfigurationError(
                "AsyncRedisLock takes a URL, a redis.asyncio.Redis or a redis.asyncio.RedisCluster"
            )


def _open(url: str, timeout_s: float) -> AsyncClient:
    match parse(url):
        case OneServer() as target:
            return _one_server(target, timeout_s)
        case Sentinels() as target:
            return _by_sentinels(target, timeout_s)
        case Cluster() as target:
            return _cluster(target, timeout_s)


def _one_server(target: OneServer, timeout_s: float) -> AsyncSingleClient:
    tcp = SSLConnection if target.tls else Connection
    connection_class = UnixDomainSocketConnection if "path" in target.options else tcp
    redis = _redis(connection_class, target.options, whole_options(timeout_s))
    return AsyncSingleClient(redis, [redis])


def _by_sentinels(target: Sentinels, timeout_s: float) -> AsyncSingleClient:
    """Return a client that asks the sentinels for the primary whenever it has to connect."""
    step_s = sentinel_step_s(timeout_s, len(target.addresses))
    direct = SSLConnection if target.tls else Connection
    named = SentinelManagedSSLConnection if target.tls else SentinelManagedConnection
    check_options(direct, target.options)
    sentinel = cast("Any", Sentinel)([])
    sentinels = [
        _redis(
            direct,
            {"host": address.host, "port": address.port, **target.sentinel_options},
            step_options(step_s),
            # The next sentinel is the second attempt.
            retries=0,
        )
        for address in target.addresses
    ]
    sentinel.sentinels = sentinels
    options = {**whole_options(timeout_s), **target.options, "retry": _retry()}
    redis: Redis = sentinel.master_for(target.service, connection_class=named, **options)
    return AsyncSingleClient(redis, [redis, *sentinels])


def _cluster(target: Cluster, timeout_s: float) -> AsyncClusterClient:
    check_options(SSLConnection if target.tls else Connection, target.options)
    options: dict[str, Any] = {**cluster_options(timeout_s), **target.options}
    if target.tls:
        options["ssl"] = True
    startup_nodes = [ClusterNode(address.host, address.port) for address in target.addresses]
    cluster = RedisCluster(startup_nodes=startup_nodes, retry=_retry(), **options)

    def nodes() -> list[ClusterNode]:
        connection = cluster.connection_kwargs
        return [ClusterNode(each.host, each.port, **connection) for each in target.addresses]

    return AsyncClusterClient(cluster, nodes)


def _redis(
    connection_class: type[AbstractConnection],
    options: Options,
    limits: Options,
    retries: int = RETRIES,
) -> Redis:
    check_options(connection_class, options)
    together: dict[str, Any] = {
        "connection_class": connection_class,
        "retry": _retry(retries),
        **limits,
        **options,
    }
    return Redis.from_pool(ConnectionPool(**together))


def _retry(retries: int = RETRIES) -> Retry:
    """Return the rule for a second attempt, at once. It covers timeouts: see redis_open.py."""
    return Retry(NoBackoff(), retries)


def _check_passed(client: Redis | RedisCluster) -> None:
    if client.get_encoder().decode_responses:
        raise ConfigurationError(
            "AsyncRedisLock needs a client that returns bytes: decode_responses"
        )
