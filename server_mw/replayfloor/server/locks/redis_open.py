"""Sets up redis-py for RedisLock: from a URL, or a client that was passed in. Nothing is connected.

redis_open_async.py is the other colour.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, cast

from redis import ConnectionPool, Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import REDIS_ALLOWED_KEYS, ClusterNode
from redis.connection import AbstractConnection
from redis.retry import Retry
from redis.sentinel import Sentinel

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.locks.redis_clients import (
    Client,
    ClusterClient,
    PassedClusterClient,
    SingleClient,
)
from replayfloor.server.locks.redis_deadline import (
    BoundedConnection,
    BoundedSentinelConnection,
    BoundedSentinelTLSConnection,
    BoundedTLSConnection,
    BoundedUnixConnection,
)
from replayfloor.server.locks.redis_limits import (
    RETRIES,
    cluster_options,
    sentinel_step_s,
    step_options,
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


def connect(client: str | Redis | RedisCluster, timeout_s: float) -> Client:
    """Return a URL's client, or one that was passed in; nothing is connected yet.

    Raises ConfigurationError.
    """
    match client:
        case Redis():
            _check_passed(client)
            return SingleClient(client)
        case RedisCluster():
            _check_passed(client)
            return PassedClusterClient(client)
        case str():
            return configured(lambda: _open(client, timeout_s))
        case _:
            raise ConfigurationError("RedisLock takes a URL, a redis.Redis or a RedisCluster")


def _open(url: str, timeout_s: float) -> Client:
    match parse(url):
        case OneServer() as target:
            return _one_server(target, timeout_s)
        case Sentinels() as target:
            return _by_sentinels(target, timeout_s)
        case Cluster() as target:
            return _cluster(target, timeout_s)


def _one_server(target: OneServer, timeout_s: float) -> SingleClient:
    tcp = BoundedTLSConnection if target.tls else BoundedConnection
    connection_class = BoundedUnixConnection if "path" in target.options else tcp
    redis = _redis(connection_class, target.options, timeout_s)
    return SingleClient(redis, [redis])


def _by_sentinels(target: Sentinels, timeout_s: float) -> SingleClient:
    """Return a client that asks the sentinels for the primary whenever it has to connect.

    redis-py's Sentinel makes the clients to the sentinels itself, with connections that have no
    deadline: so it is given none to make, and then ours.
    """
    step_s = sentinel_step_s(timeout_s, len(target.addresses))
    direct = BoundedTLSConnection if target.tls else BoundedConnection
    named = BoundedSentinelTLSConnection if target.tls else BoundedSentinelConnection
    check_options(direct, target.options)
    sentinel = cast("Any", Sentinel)([])
    sentinels = [
        _redis(
            direct,
            {"host": address.host, "port": address.port, **target.sentinel_options},
            step_s,
            # The next sentinel is the second attempt.
            retries=0,
        )
        for address in target.addresses
    ]
    sentinel.sentinels = sentinels
    options = {**step_options(timeout_s), **target.options, "retry": _retry()}
    redis: Redis = sentinel.master_for(target.service, connection_class=named, **options)
    return SingleClient(redis, [redis, *sentinels])


def _cluster(target: Cluster, timeout_s: float) -> ClusterClient:
    connection_class = BoundedTLSConnection if target.tls else BoundedConnection
    check_options(connection_class, target.options)
    if not frozenset(REDIS_ALLOWED_KEYS).issuperset(target.options):
        raise ValueError("redis-py's blocking cluster client would leave it out in silence")
    options: dict[str, Any] = {**cluster_options(timeout_s), **target.options}
    first = target.addresses[0]
    host = f"[{first.host}]" if ":" in first.host else first.host

    def nodes() -> list[ClusterNode]:
        node: Callable[[str, int], ClusterNode] = ClusterNode
        return [node(address.host, address.port) for address in target.addresses]

    def make() -> RedisCluster:
        return RedisCluster(
            url=f"redis://{host}:{first.port}",  # redis-py takes a connection class only with a URL
            startup_nodes=nodes()[1:],
            connection_class=connection_class,
            retry=_retry(),
            **options,
        )

    return ClusterClient(make, nodes)


def _redis(
    connection_class: type[AbstractConnection],
    options: Options,
    step_s: float,
    retries: int = RETRIES,
) -> Redis:
    check_options(connection_class, options)
    together: dict[str, Any] = {
        "connection_class": connection_class,
        "retry": _retry(retries),
        **step_options(step_s),
        **options,
    }
    return Redis.from_pool(ConnectionPool(**together))


def _retry(retries: int = RETRIES) -> Retry:
    """Return the rule for a second attempt, at once.

    It has to cover timeouts, although the second attempt will hardly have time: redis-py closes
    only those connections whose error is covered, and the reply to a command that timed out would
    be taken for the reply to the next.
    """
    return Retry(NoBackoff(), retries)


def _check_passed(client: Redis | RedisCluster) -> None:
    if client.get_encoder().decode_responses:
        raise ConfigurationError("RedisLock needs a client that returns bytes: decode_responses")
    default = signature(AbstractConnection).parameters["socket_timeout"].default
    options = cast("dict[str, object]", cast("Any", client).get_connection_kwargs())
    if options.get("socket_timeout", default) is None:
        raise ConfigurationError(
            "RedisLock needs a client with a socket_timeout: a Redis that hangs would hang requests"
        )
