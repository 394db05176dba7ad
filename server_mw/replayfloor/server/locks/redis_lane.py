"""One connection to Redis on which an operation can be sent without waiting for its reply.

Whoever asks next reads that reply first: a server answers in the order of the questions. So the end
of a lock costs its request one write to a socket, and no other thread has to wait for Redis.
redis-py's pool makes the connection; the commands go around its client, which costs twice as much
as the round trip itself.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from redis import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from replayfloor.server.locks.redis_deadline import check_time, until
from replayfloor.server.locks.redis_limits import RETRIES
from replayfloor.server.locks.redis_wire import (
    BATCH,
    Operation,
    batch_arguments,
    batch_command,
)

UNREAD_MAX: Final = 32
"""Replies that may be left unread, of some 30 bytes each: far below what a socket holds."""

SENT_BYTES_MAX: Final = 16 * 1024
"""Bytes that may be on their way without a reply: what a socket takes at once, also when nobody
reads at the other end."""

SEND_S: Final = 0.005
"""How long a write may take that nobody is to wait for. A socket that has room takes it at once."""

SLACK_S: Final = 0.005
"""By how much a socket may wait too long, or too short: to tell it anew takes a call each time, at
which the interpreter lets other threads in."""

_BROKEN: Final = (RedisConnectionError, RedisTimeoutError, OSError)


class _Connection(Protocol):
    """What is used of the connections in redis_deadline.py, as redis-py has no types for it."""

    @property
    def socket_timeout(self) -> float: ...

    def pack_command(self, *arguments: object) -> Sequence[bytes]: ...

    def read_response(self) -> object: ...

    def disconnect(self) -> None: ...


class Lane:
    """A connection out of a pool, kept for as long as it works. The caller holds `guard`.

    Args:
        pool: its connections end their waits by the operation's deadline (redis_deadline.py).
    """

    def __init__(self, pool: ConnectionPool) -> None:
        """Connect nothing."""
        self._pool = pool
        self.begin_anew()
        _EVERY.add(self)

    def begin_anew(self) -> None:
        """Have no connection. In a process that was just forked: leave the parent its own."""
        self.guard = threading.Lock()
        self._connection: _Connection | None = None
        self._peek: socket.socket | None = None
        self._plain, self._told_s = False, -1.0
        self._knows = False
        self._unread: list[Sequence[Operation]] = []
        self._unread_bytes = 0
        self._lost: list[Sequence[Operation]] = []

    @staticmethod
    def begin_anew_after_a_fork() -> None:
        """Leave the parent's connections alone: two processes would read each other's replies."""
        for lane in list(_EVERY):
            if lane._peek is not None:
                lane._peek.close()
            lane.begin_anew()

    def ask(self, operations: Sequence[Operation]) -> object:
        """Run operations as one script call. Raises what redis-py raises.

        A connection that fails is replaced once, as redis-py's clients do: each script recognises
        its own fence, and may run twice.
        """
        for left in range(RETRIES, -1, -1):
            try:
                return self._ask(operations)
            except ResponseError:
                raise
            except _BROKEN:
                lost = self._give_up()
                if not left:
                    raise
                check_time()
                self._lost = lost
            except BaseException:
                self._give_up()
                raise
        raise AssertionError("never reached")

    def send(self, operations: Sequence[Operation]) -> bool:
        """Send operations without waiting for the reply; say whether they are on their way."""
        connection = self._connection
        if connection is None or not self._knows or len(self._unread) >= UNREAD_MAX:
            return False
        command = batch_command(operations)
        size = len(command)
        if self._unread_bytes + size > SENT_BYTES_MAX or self._is_cut():
            return False
        try:
            with until(monotonic() + SEND_S):
                self._write(connection, command)
        except _BROKEN:
            self._lost = self._give_up()
            return False
        except BaseException:
            self._give_up()
            raise
        self._unread.append(operations)
        self._unread_bytes += size
        return True

    def close(self) -> None:
        """Read the replies that nobody has read, and close the connection; use may follow."""
        if self._connection is not None:
            with suppress(RedisError, OSError):
                self._read_unread(self._connection)
            self._give_up()

    # -- the connection ---------------------------------------------------------------------------

    def _ask(self, operations: Sequence[Operation]) -> object:
        check_time()
        connection = self._connected()
        self._write(connection, batch_command(operations))
        self._tell_time(connection)
        if self._unread:
            self._read_unread(connection)
        try:
            answer = connection.read_response()
        except NoScriptError:
            # The server never saw it: it is new, was restarted, or has been a replica until now.
            self._write(connection, _by_text(connection, operations))
            self._tell_time(connection)
            answer = connection.read_response()
        self._knows = True
        self._send_lost(connection)
        return answer

    def _connected(self) -> _Connection:
        if self._connection is not None:
            return self._connection
        opened = cast("Any", self._pool).get_connection()
        connection = self._connection = cast("_Connection", opened)
        # For the kernel both are one socket. This one never waits.
        self._peek = socket.socket(fileno=os.dup(opened._sock.fileno()))
        self._peek.setblocking(False)
        self._plain = not isinstance(opened._sock, ssl.SSLSocket)
        self._told_s = -1.0
        self._send_lost(connection)
        return connection

    def _send_lost(self, connection: _Connection) -> None:
        """Send once more what was sent to a connection that failed, or to a server without scripts.

        With the text of the script, because this server may not know it either.
        """
        lost, self._lost = self._lost, []
        for operations in lost:
            self._write(connection, _by_text(connection, operations))
            self._unread.append(operations)

    def _read_unread(self, connection: _Connection) -> None:
        """Read what was not waited for. An error reply to that is nobody's."""
        began = monotonic()
        for operations in self._unread:
            try:
                connection.read_response()
            except NoScriptError:
                # The server was told to forget its scripts in this moment.
                self._lost.append(operations)
            except ResponseError:
                pass
        self._unread.clear()
        self._unread_bytes = 0
        if monotonic() - began > SEND_S:
            self._tell_time(connection)  # else the next reply would have all of it anew

    def _write(self, connection: _Connection, command: bytes) -> None:
        """Write all. What a socket takes at once, and it nearly always does, is one system call."""
        sent = 0
        if self._plain and self._peek is not None:
            with suppress(BlockingIOError):
                sent = self._peek.send(command)
        if sent < len(command):
            self._tell_time(connection).sendall(command[sent:])

    def _tell_time(self, connection: _Connection) -> socket.socket:
        """Let a wait end when the operation does. Raises redis-py's TimeoutError."""
        check_time()
        connected = cast("socket.socket | None", cast("Any", connection)._sock)
        if connected is None:
            raise RedisConnectionError("the connection was closed")
        left_s = connection.socket_timeout
        if abs(left_s - self._told_s) > min(SLACK_S, left_s / 10):
            connected.settimeout(left_s)
            self._told_s = left_s
        return connected

    def _is_cut(self) -> bool:
        """Say whether the server has closed the connection: what is sent then would be lost."""
        assert self._peek is not None
        try:
            return self._peek.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _give_up(self) -> list[Sequence[Operation]]:
        """Close the connection; return what was sent on it and has no reply: it may be lost."""
        connection, peek = self._connection, self._peek
        lost = [*self._lost, *self._unread]
        self._connection, self._peek, self._knows = None, None, False
        self._unread, self._unread_bytes, self._lost = [], 0, []
        if peek is not None:
            peek.close()
        if connection is not None:
            connection.disconnect()
            self._pool.release(cast("Any", connection))
        return lost


def _by_text(connection: _Connection, operations: Sequence[Operation]) -> bytes:
    arguments = batch_arguments(operations)
    return b"".join(connection.pack_command("EVAL", BATCH.text, len(operations), *arguments))


_EVERY: WeakSet[Lane] = WeakSet()

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=Lane.begin_anew_after_a_fork)
