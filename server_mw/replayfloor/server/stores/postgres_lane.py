"""Connections of the protocol's pool that are kept for operations which follow one another.

To take one out of the pool for each of them, look at it, and give it back takes longer than the
operation itself.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

from replayfloor.server.stores.postgres_connection import BoundedConnection, Pool, get_connection

T = TypeVar("T")

KEPT_S: Final = 60.0
"""How long a connection is kept, so that the pool can replace old ones and meet a new primary."""


class Lane:
    """At most one connection. One thread at a time has it; others are served by the pool."""

    def __init__(self) -> None:
        """Have none."""
        self._guard = threading.Lock()
        self._connection: BoundedConnection | None = None
        self._pool: Pool | None = None
        self._peek: socket.socket | None = None
        self._until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether its connection was kept long enough."""
        return self._connection is not None and monotonic() >= self._until

    def take(self) -> bool:
        """Have the lane for `run_taken`, which has to follow, unless another thread has it."""
        return self._guard.acquire(blocking=False)

    def run(self, pool: Pool, deadline: float, work: Callable[[BoundedConnection], T]) -> T:
        """Run `work` with a connection of the pool. Raises StoreUnavailable if there is none."""
        if not self.take():
            return on_pool(pool, deadline, work)
        return self.run_taken(pool, deadline, work)

    def run_taken(self, pool: Pool, deadline: float, work: Callable[[BoundedConnection], T]) -> T:
        """Do what `run` does, for whoever has taken the lane, and give it free."""
        try:
            connection = self._ready(pool, deadline)
            try:
                return work(connection)
            except BaseException:
                self._give_back()  # the pool looks whether it can still be used
                raise
        finally:
            self._guard.release()

    def close(self, timeout_s: float) -> None:
        """Give the connection back, after whatever is using it; use may follow."""
        if self._guard.acquire(timeout=timeout_s):
            try:
                self._give_back()
            finally:
                self._guard.release()

    def _ready(self, pool: Pool, deadline: float) -> BoundedConnection:
        if self._connection is not None:
            if self._pool is pool and monotonic() < self._until and self._is_quiet():
                return self._connection
            self._give_back()
        connection = get_connection(pool, deadline)
        self._connection, self._pool, self._until = connection, pool, monotonic() + KEPT_S
        # For the kernel both are one socket. This one never waits, and costs nothing to look at.
        self._peek = socket.socket(fileno=os.dup(connection.pgconn.socket))
        self._peek.setblocking(False)
        return connection

    def _is_quiet(self) -> bool:
        """Say whether the server has said nothing meanwhile, and so not farewell either.

        After its restart every idle connection is dead, and each would cost one request.
        """
        assert self._peek is not None
        try:
            self._peek.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _give_back(self) -> None:
        connection, pool, peek = self._connection, self._pool, self._peek
        self._connection = self._pool = self._peek = None
        if peek is not None:
            peek.close()
        if connection is not None and pool is not None:
            pool.putconn(connection)


class Lanes:
    """Lanes of threads: each thread has the same one every time, as long as no other has it.

    What belongs to a connection, on both sides, then is where the thread has just been. Measured
    with eight threads, an operation takes a fifth less than one on any lane that is free.
    """

    def __init__(self, count: int) -> None:
        """Have no connection yet."""
        self._lanes = [Lane() for _ in range(count)]
        self._threads = itertools.count()
        self._own = threading.local()

    def take(self) -> Lane | None:
        """Return the thread's lane, taken; None if there is none, or another thread has it."""
        if not self._lanes:
            return None
        lane: Lane | None = getattr(self._own, "lane", None)
        if lane is None:
            lane = self._own.lane = self._lanes[next(self._threads) % len(self._lanes)]
        if lane.is_due:
            self._give_back()
        return lane if lane.take() else None

    def close(self, timeout_s: float) -> None:
        """Give every connection back; use may follow."""
        for lane in self._lanes:
            lane.close(timeout_s)

    def _give_back(self) -> None:
        """Let the pool have what was kept long enough, also where no thread comes any more."""
        for lane in self._lanes:
            if lane.is_due:
                lane.close(0.0)


def on_pool(pool: Pool, deadline: float, work: Callable[[BoundedConnection], T]) -> T:
    """Run `work` with a connection that goes back to the pool at once."""
    connection = get_connection(pool, deadline)
    try:
        return work(connection)
    finally:
        pool.putconn(connection)
