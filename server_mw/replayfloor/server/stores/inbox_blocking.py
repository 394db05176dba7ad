"""The blocking inbox in Postgres, with psycopg 3: arguments, one round trip, decode.

No decisions here. Belongs to one process: make it after a fork.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import LiteralString

import psycopg
from psycopg_pool import ConnectionPool

from replayfloor.core.claims import Fence, Finish, Renew
from replayfloor.server.resources import load
from replayfloor.server.stores.inbox import (
    bury_parameters,
    fence_parameters,
    later_parameters,
    take_parameters,
    taken_of,
)
from replayfloor.server.stores.inbox_done_in import done_in
from replayfloor.server.stores.inbox_options import POOL_SPARE, inbox_options
from replayfloor.server.stores.inbox_transaction import InboxTransaction
from replayfloor.server.stores.postgres_connection import (
    BoundedConnection,
    Pool,
    answered_by,
    check_open,
    get_connection,
)
from replayfloor.server.stores.postgres_options import OPERATION_S
from replayfloor.server.stores.postgres_schema import never_migrated, require, schema_state
from replayfloor.server.stores.postgres_values import renew_parameters
from replayfloor.server.stores.protocols import Row
from replayfloor.server.webhooks.inbox.effects import Bury, Done, Later
from replayfloor.server.webhooks.inbox.values import Taken


class PostgresInbox:
    """See `replayfloor.server.stores.inbox.Inbox`.

    Args:
        url: `postgresql://…` or any libpq connection string.
        namespace: whose events are taken.
        workers: how many events are applied at a time; each may hold a connection.
        operation_s: seconds until an operation raises StoreUnavailable.
    """

    def __init__(
        self, url: str, *, namespace: str, workers: int, operation_s: float = OPERATION_S
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        self._options = inbox_options(url, workers=workers, operation_s=operation_s)
        self._namespace = namespace
        self._opening = threading.Lock()
        self._pool: Pool | None = None

    def open(self) -> None:
        """See Inbox."""
        self._opened(self._deadline())

    def close(self) -> None:
        """See Inbox."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def take(self, fence: Fence, lease_ms: int, *, again: bool = False) -> Taken | None:
        """See Inbox."""
        parameters = take_parameters(self._namespace, fence, lease_ms, again=again)
        rows = self._rows(load("sql/postgres/inbox_take.sql"), parameters)
        return taken_of(rows[0], self._namespace, fence) if rows else None

    def renew(self, renew: Renew) -> bool:
        """See Inbox."""
        return self._says(load("sql/postgres/inbox_renew.sql"), renew_parameters(renew))

    def done(self, done: Done) -> bool:
        """See Inbox."""
        return self._says(load("sql/postgres/inbox_done.sql"), fence_parameters(done))

    def later(self, later: Later) -> bool:
        """See Inbox."""
        return self._says(load("sql/postgres/inbox_later.sql"), later_parameters(later))

    def bury(self, bury: Bury) -> bool:
        """See Inbox."""
        return self._says(load("sql/postgres/inbox_bury.sql"), bury_parameters(bury))

    def begin(self) -> InboxTransaction:
        """See Inbox."""
        deadline = self._deadline()
        pool = self._opened(deadline)
        connection = get_connection(pool, deadline)
        transaction = InboxTransaction(pool, connection, self._options.operation_s)
        transaction.start(deadline)
        return transaction

    def done_in(self, connection: object, finish: Finish) -> bool:
        """See Inbox."""
        return done_in(connection, finish)

    # -- round trips ------------------------------------------------------------------------------

    def _deadline(self) -> float:
        return monotonic() + self._options.operation_s

    def _opened(self, deadline: float) -> Pool:
        if self._pool is not None:
            return self._pool
        with self._opening:
            if self._pool is None:
                self._pool = self._open(deadline)
            return self._pool

    def _open(self, deadline: float) -> Pool:
        pool: Pool = ConnectionPool(
            self._options.conninfo,
            connection_class=BoundedConnection,
            check=check_open,
            **self._options.pool(self._options.handler_connections + POOL_SPARE),
        )
        try:
            pool.open()
            self._check_schema(pool, deadline)
        except BaseException:
            # Not here: a thread of the pool may still be connecting to a server that hangs.
            threading.Thread(target=pool.close, daemon=True).start()
            raise
        return pool

    def _check_schema(self, pool: Pool, deadline: float) -> None:
        try:
            (row,) = self._rows_of(pool, load("sql/postgres/state.sql"), None, deadline)
            state = schema_state(row)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            state = never_migrated()
        require(state, self._options.advice)

    def _says(self, query: LiteralString, parameters: Mapping[str, object]) -> bool:
        ((said,),) = self._rows(query, parameters)
        return bool(said)

    def _rows(self, query: LiteralString, parameters: Mapping[str, object]) -> Sequence[Row]:
        deadline = self._deadline()
        return self._rows_of(self._opened(deadline), query, parameters, deadline)

    def _rows_of(
        self,
        pool: Pool,
        query: LiteralString,
        parameters: Mapping[str, object] | None,
        deadline: float,
    ) -> Sequence[Row]:
        connection = get_connection(pool, deadline)
        try:
            with answered_by(connection, deadline):
                cursor = connection.execute(query, parameters)
                return cursor.fetchall()
        finally:
            pool.putconn(connection)
