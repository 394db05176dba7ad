"""Blocking receipts in Postgres, with psycopg 3: arguments, one round trip, decode.

No decisions here. Any number of threads may use one store. As many as there are connections to
spare have one each; claims and finishes of others that arrive while one is under way share a
statement and a commit. A process that was forked from one that had used it gets connections of its
own: two processes on one connection would read each other's answers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import LiteralString, TypeVar

import psycopg
from psycopg_pool import ConnectionPool

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.coalesce_threads import Coalescer, Take
from replayfloor.server.resources import load
from replayfloor.server.stores.policies import (
    Declaration,
    Declared,
    declaration_parameters,
    declared_of,
)
from replayfloor.server.stores.postgres_batch import ENTRIES_MAX, joins_claims, joins_finishes
from replayfloor.server.stores.postgres_connection import (
    BoundedConnection,
    Pool,
    check_open,
    get_connection,
)
from replayfloor.server.stores.postgres_finish_in import finish_in
from replayfloor.server.stores.postgres_lane import Lane, Lanes, on_pool
from replayfloor.server.stores.postgres_link import seconds_left
from replayfloor.server.stores.postgres_options import (
    HANDLER_CONNECTIONS,
    LANES_FROM,
    OPERATION_S,
    POOL_CONNECTIONS,
    REOPEN_PAUSE_S,
    PostgresOptions,
)
from replayfloor.server.stores.postgres_schema import never_migrated, require, schema_state
from replayfloor.server.stores.postgres_together import (
    claim_all,
    claim_one,
    finish_all,
    finish_one,
    one_row,
)
from replayfloor.server.stores.postgres_transaction import PostgresTransaction
from replayfloor.server.stores.postgres_values import abandon_parameters, renew_parameters
from replayfloor.server.stores.protocols import Row

CLAIMS, FINISHES = 0, 1

T = TypeVar("T")

_inherited: list[tuple[tuple[Pool, Pool], tuple[Lane, Lane], Lanes]] = []
"""Pools that a forked process was born with. They are its parent's: collecting them as garbage
would mean to wait for threads that do not exist here."""


class PostgresReceipts:
    """Claims and receipts in two tables of the schema `replayfloor` (see `replayfloor migrate`).

    Args:
        url: `postgresql://…` or any libpq connection string.
        pool_connections: connections for the protocol, per process.
        handler_connections: connections for `atomic` handlers, per process.
        operation_s: seconds until an operation raises StoreUnavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_connections: int = POOL_CONNECTIONS,
        handler_connections: int = HANDLER_CONNECTIONS,
        operation_s: float = OPERATION_S,
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        self._options = PostgresOptions.check(
            url,
            pool_connections=pool_connections,
            handler_connections=handler_connections,
            operation_s=operation_s,
        )
        self._claims = Coalescer(
            self._claim_all, self._claim, entries_max=ENTRIES_MAX, limit_s=operation_s
        )
        self._finishes = Coalescer(
            self._finish_all, self._finish, entries_max=ENTRIES_MAX, limit_s=operation_s
        )
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._lanes = (Lane(), Lane())  # of batches of claims, of finishes
        self._own_lanes = Lanes(self._options.own_lanes)
        self._pools: tuple[Pool, Pool] | None = None
        self._opening = threading.Lock()
        self._failed_at = -inf

    def open(self) -> None:
        """Open the pools and check that the database was migrated."""
        self._failed_at = -inf
        self._opened(self._deadline())

    def close(self) -> None:
        """Close both pools."""
        pools, self._pools = self._pools, None
        if self._process == os.getpid():
            for lane in (*self._lanes, self._own_lanes):
                lane.close(self._options.operation_s)
            _close(pools or ())

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        deadline = self._deadline()
        protocol, _handlers = self._opened(deadline)
        if (lane := self._own_lanes.take()) is not None:
            return lane.run_taken(protocol, deadline, lambda own: claim_one(own, claim, deadline))
        if joins_claims(claim):
            return self._claims.ask(claim.id, claim)
        return self._claim(claim, deadline)

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        deadline = self._deadline()
        protocol, _handlers = self._opened(deadline)
        if (lane := self._own_lanes.take()) is not None:
            return lane.run_taken(protocol, deadline, lambda own: finish_one(own, finish, deadline))
        if joins_finishes(finish):
            return self._finishes.ask(finish.id, finish)
        return self._finish(finish, deadline)

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        (done,) = self._call(load("sql/postgres/abandon.sql"), abandon_parameters(abandon))
        return bool(done)

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        (done,) = self._call(load("sql/postgres/renew.sql"), renew_parameters(renew))
        return bool(done)

    def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.Receipts.declare`."""
        parameters = declaration_parameters(declaration)
        row = self._call(load("sql/postgres/declare_policy.sql"), parameters)
        return declared_of(declaration, row)

    def begin(self, _id: ReceiptId | None = None, /) -> PostgresTransaction:
        """See `replayfloor.core.claims.Begin`."""
        deadline = self._deadline()
        _protocol, handlers = self._opened(deadline)
        connection = get_connection(handlers, deadline)
        transaction = PostgresTransaction(handlers, connection, self._options.operation_s)
        transaction.start(deadline)
        return transaction

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.Receipts.finish_in`.

        Takes a `psycopg.Connection`, a connection or session of SQLAlchemy, or Django's
        `django.db.connection`.
        """
        return finish_in(connection, finish)

    def _deadline(self) -> float:
        return monotonic() + self._options.operation_s

    def _opened(self, deadline: float) -> tuple[Pool, Pool]:
        if self._process != os.getpid():
            if self._pools is not None:
                _inherited.append((self._pools, self._lanes, self._own_lanes))
            self._begin_anew()
        if (pools := self._pools) is not None:
            return pools
        if not self._opening.acquire(timeout=seconds_left(deadline)):
            raise StoreUnavailable("Postgres is still being connected to", performed=False)
        try:
            if self._pools is None:
                # Requests queue here while one of them tries. Each in turn waiting for a
                # database that is away would make the last of them wait for minutes.
                if monotonic() - self._failed_at < REOPEN_PAUSE_S:
                    raise StoreUnavailable("Postgres was not there a moment ago", performed=False)
                self._pools = self._open(deadline)
            return self._pools
        finally:
            self._opening.release()

    def _open(self, deadline: float) -> tuple[Pool, Pool]:
        protocol, handlers = (self._pool(size) for size in self._options.sizes)
        try:
            protocol.open()
            handlers.open()
            self._check_schema(protocol, deadline)
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                self._failed_at = monotonic()
            # Not here: a thread of the pool may still be connecting to a server that hangs.
            pools = (protocol, handlers)
            threading.Thread(target=_close, args=(pools,), daemon=True).start()
            raise
        return protocol, handlers

    def _pool(self, size: int) -> Pool:
        return ConnectionPool(
            self._options.conninfo,
            connection_class=BoundedConnection,
            check=check_open,
            **self._options.pool(size),
        )

    def _check_schema(self, protocol: Pool, deadline: float) -> None:
        try:
            connection = get_connection(protocol, deadline)
            try:
                row = one_row(connection, load("sql/postgres/state.sql"), None, deadline)
            finally:
                protocol.putconn(connection)
            state = schema_state(row)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            state = never_migrated()
        require(state, self._options.advice)

    # -- round trips ------------------------------------------------------------------------------

    def _claim(self, claim: Claim, deadline: float) -> ClaimAnswer:
        return self._on(CLAIMS, deadline, lambda kept: claim_one(kept, claim, deadline))

    def _claim_all(self, take: Take[Claim], deadline: float) -> Sequence[ClaimAnswer | Exception]:
        return self._on(CLAIMS, deadline, lambda kept: claim_all(kept, take(), deadline))

    def _finish(self, finish: Finish, deadline: float) -> bool:
        return self._on(FINISHES, deadline, lambda kept: finish_one(kept, finish, deadline))

    def _finish_all(self, take: Take[Finish], deadline: float) -> Sequence[bool | Exception]:
        return self._on(FINISHES, deadline, lambda kept: finish_all(kept, take(), deadline))

    def _call(self, query: LiteralString, parameters: Mapping[str, object]) -> Row:
        deadline = self._deadline()
        protocol, _handlers = self._opened(deadline)
        return on_pool(
            protocol, deadline, lambda connection: one_row(connection, query, parameters, deadline)
        )

    def _on(self, lane: int, deadline: float, work: Callable[[BoundedConnection], T]) -> T:
        protocol, _handlers = self._opened(deadline)
        if self._options.pool_connections < LANES_FROM:
            return on_pool(protocol, deadline, work)
        return self._lanes[lane].run(protocol, deadline, work)


def _close(pools: tuple[Pool, ...]) -> None:
    for pool in pools:
        pool.close()
