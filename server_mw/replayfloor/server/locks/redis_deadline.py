"""Connections of the blocking redis-py that end with the operation's own deadline.

redis-py limits every step (connect, greet, ask), and one operation may take many: each sentinel,
each node of a cluster, each attempt anew. Its asyncio side is stopped from outside, by cancelling;
a blocking call cannot be. So the limit of each step is what is left of the whole.
"""

from __future__ import annotations

import socket
import time
from contextvars import ContextVar
from typing import Any, cast

from redis.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

LEAST_S = 0.001
"""The timeout of a step when no time is left. 0 would mean to a socket: do not wait at all, and
report something else than a timeout."""

NO_LIMIT_S = 3600.0
"""The timeout of a step that has none and that belongs to no operation."""

_until: ContextVar[float | None] = ContextVar("replayfloor_lock_until", default=None)


class until:  # noqa: N801 - reads as the function it would be, and costs half of that
    """Let everything that this thread asks of Redis end by a moment of `time.monotonic`."""

    __slots__ = ("_deadline", "_token")

    def __init__(self, deadline: float) -> None:
        """Change nothing yet."""
        self._deadline = deadline

    def __enter__(self) -> None:
        """Set the moment."""
        self._token = _until.set(self._deadline)

    def __exit__(self, *_: object) -> None:
        """Set the one from before."""
        _until.reset(self._token)


def left_s(limit_s: float) -> float:
    """Return `limit_s`, or what is left of the operation if that is less; never nothing."""
    until = _until.get()
    return limit_s if until is None else min(limit_s, max(LEAST_S, until - time.monotonic()))


def check_time() -> None:
    """Raise redis-py's TimeoutError if no time is left, so that nothing is begun any more."""
    until = _until.get()
    if until is not None and until <= time.monotonic():
        raise RedisTimeoutError("the lock's time is over")


class _Bounded(AbstractConnection):
    """A connection whose timeouts are taken anew before every step.

    redis-py reads both from here when it connects. Afterwards a socket has a timeout of its own,
    that of the operation which opened it, and so is told before and after each command is sent.
    """

    # The names are those of redis-py, whose constructor sets them.
    _socket_timeout: float | None
    _socket_connect_timeout: float | None

    @property
    def socket_timeout(self) -> float | None:
        return left_s(self._socket_timeout or NO_LIMIT_S)

    @socket_timeout.setter
    def socket_timeout(self, value: float | None) -> None:
        self._socket_timeout = value

    @property
    def socket_connect_timeout(self) -> float | None:
        return left_s(self._socket_connect_timeout or NO_LIMIT_S)

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, value: float | None) -> None:
        self._socket_connect_timeout = value

    def connect(self) -> None:
        check_time()
        super().connect()  # type: ignore[no-untyped-call]

    def send_packed_command(
        self,
        command: object,
        check_health: bool = True,  # noqa: FBT001, FBT002 - redis-py's signature
    ) -> None:
        self._tell_socket()
        cast("Any", super()).send_packed_command(command, check_health)
        self._tell_socket()

    def _tell_socket(self) -> None:
        connected = cast("socket.socket | None", self._sock)
        try:
            check_time()
        except RedisTimeoutError:
            # The reply to what was sent would be taken for that of the next command.
            cast("Any", self).disconnect()
            raise
        if connected is not None:
            connected.settimeout(self.socket_timeout)


class BoundedConnection(_Bounded, Connection):
    """Over TCP."""


class BoundedTLSConnection(_Bounded, SSLConnection):
    """Over TLS."""


class BoundedUnixConnection(_Bounded, UnixDomainSocketConnection):
    """Over a socket in the file system."""


class BoundedSentinelConnection(_Bounded, SentinelManagedConnection):
    """To the primary that the sentinels name."""


class BoundedSentinelTLSConnection(_Bounded, SentinelManagedSSLConnection):
    """The same over TLS."""
