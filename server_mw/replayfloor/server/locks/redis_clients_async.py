"""The asyncio clients behind AsyncRedisLock: one server (perhaps named by sentinels), or a cluster.

What differs between the two. redis_open_async.py sets them up; redis_clients.py is the other
colour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.exceptions import NoScriptError, RedisClusterException, SlotNotCoveredError

from replayfloor.server.locks.redis_lane_async import AsyncLane
from replayfloor.server.locks.redis_limits import ANY_SERVER
from replayfloor.server.locks.redis_wire import (
    BATCH,
    Arguments,
    Operation,
    Script,
    batch_arguments,
    batch_command,
)

STEPS_TO_WRITE = 2
"""How many steps of the event loop redis-py takes from a command to its bytes: it looks at an idle
connection first. A test holds it to that."""


class AsyncClient(Protocol):
    """What AsyncRedisLock needs of redis-py. Raises what redis-py raises."""

    def server_of(self, key: str) -> str:
        """Return which server is in charge of a key, as far as is known without asking."""
        ...

    async def run(self, script: Script, key: str, arguments: Arguments) -> object:
        """Run a script on the server that is in charge of `key`."""
        ...

    async def forget_idle(self) -> None:
        """Close the connections that wait in a pool: they may lead to a server that failed."""
        ...

    async def close(self) -> None:
        """Close every connection of our own; use may follow."""
        ...


class AsyncSingleClient:
    """One server. `owned` are the clients that `close` closes. A command's bytes are written
    `steps_to_write` steps of the event loop after it was begun.

    A client of somebody else's lends a connection for one command at a time: its pool may be one
    that others wait for, and may have to do something to a connection that comes back.
    """

    def __init__(self, redis: Redis, owned: Sequence[Redis] = ()) -> None:
        self._redis, self._owned = redis, owned
        self._lane = AsyncLane(redis) if owned else None
        self.steps_to_write = 0 if owned else STEPS_TO_WRITE

    def server_of(self, key: str) -> str:
        return ANY_SERVER

    async def run(self, script: Script, key: str, arguments: Arguments) -> object:
        return await _run(self._redis, script, key, arguments)

    async def run_all(self, operations: Sequence[Operation]) -> object:
        """Run operations on any number of keys as one script call."""
        redis, lane = self._redis, self._lane
        try:
            if lane is not None:
                return await lane.call(batch_command(operations))
            return await _evalsha(redis, BATCH, len(operations), batch_arguments(operations))
        except NoScriptError:
            return await _eval(redis, BATCH, len(operations), batch_arguments(operations))

    async def forget_idle(self) -> None:
        if self._lane is not None:
            await self._lane.disconnect()
        await self._redis.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        if self._lane is not None:
            await self._lane.close()
        for redis in self._owned:
            await _close(redis)


class AsyncPassedClusterClient:
    """A cluster client that belongs to somebody else."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster

    def server_of(self, key: str) -> str:
        return _server_of(self._cluster, key)

    async def run(self, script: Script, key: str, arguments: Arguments) -> object:
        return await _run_in_cluster(self._cluster, script, key, arguments)

    async def forget_idle(self) -> None:
        """redis-py does so itself, for the node that failed."""

    async def close(self) -> None:
        """Not ours."""


class AsyncClusterClient:
    """A cluster client of our own.

    redis-py goes on with the addresses that the cluster last gave. When none of them can be
    reached, `first` are tried as well, those of the URL: their names may mean new servers by now.
    """

    def __init__(self, cluster: RedisCluster, first: Callable[[], list[ClusterNode]]) -> None:
        self._cluster, self._first = cluster, first

    def server_of(self, key: str) -> str:
        return _server_of(self._cluster, key)

    async def run(self, script: Script, key: str, arguments: Arguments) -> object:
        try:
            return await _run_in_cluster(self._cluster, script, key, arguments)
        except RedisClusterException:
            for node in self._first():
                self._cluster.nodes_manager.startup_nodes.setdefault(node.name, node)
            raise

    async def forget_idle(self) -> None:
        """redis-py does so itself, for the node that failed."""

    async def close(self) -> None:
        await _close(self._cluster)


async def _run(
    redis: Redis | RedisCluster, script: Script, key: str, arguments: Arguments
) -> object:
    try:
        return await _evalsha(redis, script, 1, (key, *arguments))
    except NoScriptError:
        # The server never saw it: it is new, was restarted, or has been a replica until now.
        return await _eval(redis, script, 1, (key, *arguments))


def _evalsha(
    redis: Redis | RedisCluster, script: Script, keys: int, given: Sequence[bytes | str | int]
) -> Awaitable[object]:
    return cast("Awaitable[object]", redis.evalsha(script.sha, keys, *given))


def _eval(
    redis: Redis | RedisCluster, script: Script, keys: int, given: Sequence[bytes | str | int]
) -> Awaitable[object]:
    return cast("Awaitable[object]", redis.eval(script.text, keys, *given))


async def _run_in_cluster(
    cluster: RedisCluster, script: Script, key: str, arguments: Arguments
) -> object:
    # Does nothing later. But before it knows the cluster, redis-py asks just any node.
    await cluster.initialize()
    return await _run(cluster, script, key, arguments)


def _server_of(cluster: RedisCluster, key: str) -> str:
    try:
        return str(cast("Any", cluster).get_node_from_key(key).name)
    except SlotNotCoveredError:
        return ANY_SERVER


async def _close(client: Redis | RedisCluster) -> None:
    await cast("Awaitable[None]", client.aclose())
