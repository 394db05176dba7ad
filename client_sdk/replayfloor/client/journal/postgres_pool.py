"""The connections of one Postgres journal: opened at its first use, per process; errors, retries.

No statements of the journal. A process that was forked from one that had used the journal gets
connections of its own: two processes on one connection would read each other's answers.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from math import inf
from time import monotonic
from typing import Final, TypeAlias

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from replayfloor.client.journal.postgres_link import (
    BoundedConnection,
    connect_options,
    connected,
    conninfo_of,
    is_alive,
    seconds_left,
    unavailable,
)
from replayfloor.client.journal.postgres_tables import ensure_schema, require_schema
from replayfloor.client.journal.rows import Row, Value
from replayfloor.core.errors import ConfigurationError, StoreUnavailable

RECONNECT_S: Final = 2.0
"""How long the pool itself keeps trying to connect before it leaves it to the next operation. Its
pauses double; after a long outage a larger value would go on refusing when Postgres is back."""

_Pool: TypeAlias = ConnectionPool[BoundedConnection]

_inherited: list[_Pool] = []
"""Pools that a forked process was born with. They are its parent's: collecting them as garbage
would mean to wait for threads that do not exist here."""

_journals: weakref.WeakSet[PostgresPool] = weakref.WeakSet()


class PostgresPool:
    """Runs statements, each in a transaction of its own; `close` is for good."""

    def __init__(
        self, url: str, connections: int, operation_s: float, *, creates: bool = True
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        if connections < 1 or not 0 < operation_s < inf:
            raise ConfigurationError("pool_connections and operation_s must be positive")
        self._conninfo = conninfo_of(url)
        self._connections = connections
        self._operation_s = operation_s
        self._prepare = ensure_schema if creates else require_schema
        self._closed = False
        self._opening = threading.Lock()
        self._pool: _Pool | None = None
        _journals.add(self)

    def run(self, statement: bytes, arguments: Mapping[str, Value]) -> list[Row]:
        """Run one statement; return its rows.

        Raises StoreUnavailable, in time; unless it says otherwise it is not known whether the
        statement was performed. Raises ConfigurationError at the first use, see `ensure_schema`
        and, for a journal that is only looked at, `require_schema`.
        """
        deadline = monotonic() + self._operation_s
        pool = self._opened(deadline)
        while True:
            try:
                return _run_once(pool, statement, arguments, deadline)
            except psycopg.errors.SerializationFailure as error:
                # Nothing was performed: where transactions are stricter by default, or an entry
                # has gone meanwhile, somebody else was faster.
                if monotonic() >= deadline:
                    raise unavailable(error, performed=False) from error

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(self._operation_s)

    def forget(self) -> None:
        """Start anew in a child process: the lock may be held by a thread that is not here."""
        self._opening = threading.Lock()
        if self._pool is not None:
            _inherited.append(self._pool)
            self._pool = None

    def _opened(self, deadline: float) -> _Pool:
        if self._closed:
            raise StoreUnavailable("the journal was closed", performed=False)
        if (pool := self._pool) is not None:
            return pool
        if not self._opening.acquire(timeout=seconds_left(deadline)):
            raise StoreUnavailable("Postgres is still being connected to", performed=False)
        try:
            if (pool := self._pool) is None:
                self._pool = pool = self._open(deadline)
            if self._closed:  # meanwhile
                self.close()
            return pool
        finally:
            self._opening.release()

    def _open(self, deadline: float) -> _Pool:
        # Not a connection of the pool: that would not say why it cannot be had.
        with connected(self._conninfo, deadline) as connection:
            self._prepare(connection)
        return ConnectionPool(
            self._conninfo,
            connection_class=BoundedConnection,
            kwargs={**connect_options(self._operation_s)},
            min_size=0,
            max_size=self._connections,
            reconnect_timeout=RECONNECT_S,
            num_workers=1,
            open=True,
        )


def _forget_all() -> None:
    for journal in list(_journals):
        journal.forget()


os.register_at_fork(after_in_child=_forget_all)


def _run_once(
    pool: _Pool, statement: bytes, arguments: Mapping[str, Value], deadline: float
) -> list[Row]:
    connection = _take(pool, deadline)
    connection.deadline = deadline
    try:
        return [*connection.execute(statement, arguments).fetchall()]
    except psycopg.errors.SerializationFailure:
        raise
    except psycopg.errors.ReadOnlySqlTransaction as error:
        connection.close()  # a failover has left it on what is a standby now
        raise unavailable(error, performed=False) from error
    except (psycopg.Error, OverflowError, UnicodeError) as error:
        raise unavailable(error) from error
    finally:
        connection.deadline = inf
        pool.putconn(connection)


def _take(pool: _Pool, deadline: float) -> BoundedConnection:
    # All that were idle may be dead, and then comes a new one.
    for _ in range(pool.max_size + 1):
        try:
            connection = pool.getconn(seconds_left(deadline))
        except (PoolTimeout, PoolClosed, TooManyRequests, psycopg.Error) as error:
            raise unavailable(error, performed=False) from error
        # Not by the pool's own check: it pauses for a second and more after each that fails.
        if is_alive(connection):
            return connection
        connection.close()
        pool.putconn(connection)
    raise StoreUnavailable("Postgres closes every connection", performed=False)
