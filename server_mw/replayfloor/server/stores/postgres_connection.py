"""A blocking connection to Postgres on which no wait is without end, and how one is had."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import TypeAlias

import psycopg
from psycopg.abc import RV, PQGen
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores.postgres_link import (
    is_cut,
    seconds_left,
    silence_is_unavailable,
)
from replayfloor.server.stores.protocols import Row

WAKE_S = 0.1
"""How often a wait looks at the clock, and at signals; psycopg's own value."""

WAKE_S_MIN = 0.01
"""So that the last moments of a wait are not spent in a busy loop."""


class BoundedConnection(psycopg.Connection[Row]):
    """A connection whose waits end at a `deadline`, a moment of `time.monotonic`.

    psycopg waits in a loop that asks a generator, after each interval, whether it wants to go on.
    That is where the deadline is looked at: no thread or timer stands by, and a server that hangs
    is left after one interval more. Asking it to cancel would mean to wait for its answer.
    """

    deadline = inf

    def wait(self, gen: PQGen[RV], interval: float = WAKE_S, timeout: float | None = None) -> RV:
        """See `psycopg.Connection.wait`. Raises OperationalError at the deadline."""
        if self.deadline != inf:
            gen = _until(self.deadline, gen)
            interval = max(WAKE_S_MIN, min(interval, seconds_left(self.deadline)))
        try:
            if timeout is None:  # which psycopg 3.2 does not know
                return super().wait(gen, interval)
            return super().wait(gen, interval, timeout)
        except Overdue:
            self.close()  # the answer may still come, and would be taken for the next one's
            raise


Pool: TypeAlias = ConnectionPool[BoundedConnection]


class Overdue(psycopg.OperationalError):
    """The deadline of a connection has passed."""


def _until(deadline: float, gen: PQGen[RV]) -> PQGen[RV]:
    try:
        state = next(gen)
        while True:
            if monotonic() >= deadline:
                gen.close()
                raise Overdue("the time for the operation is over")
            ready = yield state
            state = gen.send(ready)
    except StopIteration as stop:
        value: RV = stop.value
        return value


def get_connection(pool: Pool, deadline: float) -> BoundedConnection:
    """Take a connection out of a pool. Raises StoreUnavailable."""
    try:
        return pool.getconn(seconds_left(deadline))
    except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error


def check_open(connection: BoundedConnection) -> None:
    """Raise OperationalError if the server has closed an idle connection; no round trip."""
    if is_cut(connection):
        connection.close()  # else the pool takes it for a good one, and offers it again
        raise psycopg.OperationalError("the server has closed the connection")


@contextmanager
def answered_by(connection: BoundedConnection, deadline: float) -> Generator[None]:
    """Turn "no answer by then" into StoreUnavailable; errors of the statement pass through."""
    connection.deadline = deadline
    try:
        with silence_is_unavailable(connection):
            yield
    finally:
        connection.deadline = inf
