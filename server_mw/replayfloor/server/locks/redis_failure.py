"""Which failures of Redis speak against the server, and which against one value only. Pure."""

from __future__ import annotations

from redis.exceptions import (
    ClusterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

FORESEEN = (RedisError, RedisClusterException, OSError)
"""What redis-py raises when Redis fails. (The third covers the builtin TimeoutError; the second
is no RedisError.)"""

_CLASSES = (ClusterDownError, NoPermissionError, OutOfMemoryError, ReadOnlyError)
"""Error replies that the next key would get as well. Loading and authentication are not here:
redis-py counts them as failed connections."""

_CODES = frozenset(
    {"BUSY", "CLUSTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "UNKILLABLE"}
)
"""The same for replies that have no class of their own: a script that hangs, a failed snapshot, too
few replicas. A server before Redis 7 reports what went wrong in a script as `ERR … -OOM …`."""


def is_outage(error: Exception) -> bool:
    """Say whether the next operation, on any key, would fail as well.

    True for whatever is not foreseen: a defect that shows on every request is to be met now and
    then, and not on every request.
    """
    match error:
        case MaxConnectionsError():
            return False  # our own limit; the server was not asked
        case ResponseError():
            words = {word.lstrip("-") for word in str(error).split()}
            return isinstance(error, _CLASSES) or not _CODES.isdisjoint(words)
        case _:
            return True
