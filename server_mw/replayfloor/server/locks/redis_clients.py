"""The blocking clients behind RedisLock: one server (perhaps named by sentinels), or a cluster.

What differs between the two. redis_open.py sets them up; redis_clients_async.py is the other
colour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from redis import Redis, RedisCluster
from redis.cluster import ClusterNode
from redis.exceptions import NoScriptError, RedisClusterException, SlotNotCoveredError

from replayfloor.server.locks.redis_deadline import check_time, left_s
from replayfloor.server.locks.redis_lane import Lane
from replayfloor.server.locks.redis_limits import ANY_SERVER
from replayfloor.server.locks.redis_wire import (
    BATCH,
    Arguments,
    Operation,
    Script,
    batch_arguments,
)

NO_LANE: Final = object()
"""Nothing was done."""


class Client(Protocol):
    """What RedisLock needs of redis-py. Raises what redis-py raises."""

    def server_of(self, key: str) -> str:
        """Return which server is in charge of a key, as far as is known without asking."""
        ...

    def run(self, script: Script, key: str, arguments: Arguments) -> object:
        """Run a script on the server that is in charge of `key`."""
        ...

    def forget_idle(self) -> None:
        """Close the connections that wait in a pool: they may lead to a server that failed."""
        ...

    def close(self) -> None:
        """Close every connection of our own; use may follow."""
        ...


class SingleClient:
    """One server. `owned` are the clients that `close` closes; the first of them is `redis`.

    A client of our own has a lane: one of its connections, which whoever comes first uses. A pool
    that belongs to somebody else is not deprived of a connection.
    """

    def __init__(self, redis: Redis, owned: Sequence[Redis] = ()) -> None:
        self._redis, self._owned = redis, owned
        self._lane = Lane(redis.connection_pool) if owned else None

    def server_of(self, key: str) -> str:
        return ANY_SERVER

    def run(self, script: Script, key: str, arguments: Arguments) -> object:
        return _run(self._redis, script, key, arguments)

    def run_all(self, operations: Sequence[Operation]) -> object:
        """Run operations on any number of keys as one script call."""
        count, arguments = len(operations), batch_arguments(operations)
        try:
            return self._redis.evalsha(BATCH.sha, count, *arguments)
        except NoScriptError:
            return self._redis.eval(BATCH.text, count, *arguments)

    def run_all_in_lane(self, operations: Sequence[Operation]) -> object:
        """The same on the lane; NO_LANE if there is none, or another thread has it."""
        lane = self._lane
        if lane is None or not (guard := lane.guard).acquire(blocking=False):
            return NO_LANE
        try:
            return lane.ask(operations)
        finally:
            guard.release()

    def send_all(self, operations: Sequence[Operation]) -> bool:
        """Send operations without waiting for the reply; say whether they are on their way."""
        lane = self._lane
        if lane is None or not (guard := lane.guard).acquire(blocking=False):
            return False
        try:
            return lane.send(operations)
        finally:
            guard.release()

    def forget_idle(self) -> None:
        self._redis.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        lane = self._lane
        if lane is not None and (guard := lane.guard).acquire(
            timeout=left_s(threading.TIMEOUT_MAX)
        ):
            try:
                lane.close()
            finally:
                guard.release()
        for redis in self._owned:
            redis.close()


class PassedClusterClient:
    """A cluster client that belongs to somebody else."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster

    def server_of(self, key: str) -> str:
        return _server_of(self._cluster, key)

    def run(self, script: Script, key: str, arguments: Arguments) -> object:
        return _run(self._cluster, script, key, arguments)

    def forget_idle(self) -> None:
        """redis-py does so itself, for the node that failed."""

    def close(self) -> None:
        """Not ours."""


class ClusterClient:
    """A cluster client of our own: made at first use, because to make it is to connect.

    redis-py goes on with the addresses that the cluster last gave. When none of them can be
    reached, `first` are tried as well, those of the URL: their names may mean new servers by now.
    """

    def __init__(
        self, make: Callable[[], RedisCluster], first: Callable[[], list[ClusterNode]]
    ) -> None:
        self._make, self._first = make, first
        self._cluster: RedisCluster | None = None
        self._making = threading.Lock()

    def server_of(self, key: str) -> str:
        cluster = self._cluster
        return ANY_SERVER if cluster is None else _server_of(cluster, key)

    def run(self, script: Script, key: str, arguments: Arguments) -> object:
        cluster = self._made()
        try:
            return _run(cluster, script, key, arguments)
        except RedisClusterException:
            for node in self._first():
                cluster.nodes_manager.startup_nodes.setdefault(node.name, node)
            raise

    def forget_idle(self) -> None:
        """redis-py does so itself, for the node that failed."""

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _made(self) -> RedisCluster:
        if self._cluster is not None:
            return self._cluster
        if not self._making.acquire(timeout=left_s(threading.TIMEOUT_MAX)):
            raise TimeoutError("another request is still connecting to the cluster")
        try:
            check_time()
            if self._cluster is None:
                self._cluster = self._make()
            return self._cluster
        finally:
            self._making.release()


def _run(redis: Redis | RedisCluster, script: Script, key: str, arguments: Arguments) -> object:
    try:
        return redis.evalsha(script.sha, 1, key, *arguments)
    except NoScriptError:
        # The server never saw it: it is new, was restarted, or has been a replica until now.
        return redis.eval(script.text, 1, key, *arguments)


def _server_of(cluster: RedisCluster, key: str) -> str:
    try:
        return str(cast("Any", cluster).get_node_from_key(key).name)
    except SlotNotCoveredError:
        return ANY_SERVER
