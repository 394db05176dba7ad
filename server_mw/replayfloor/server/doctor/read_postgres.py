"""Asks Postgres. Each question is a transaction of its own that may only read, with a time limit.

One question that fails (a privilege that lacks, a lock that others hold) leaves the others as they
are: what could not be read says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from replayfloor.core.errors import ConfigurationError, IdempotencyError
from replayfloor.server.doctor.cut_off import cut_off_after
from replayfloor.server.doctor.facts_postgres import (
    Answering,
    Claims,
    ClaimsTable,
    Clock,
    Connections,
    Holder,
    InboxCounts,
    Indexes,
    Override,
    PostgresFacts,
    Replica,
)
from replayfloor.server.doctor.unread import Read, Unread
from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance_postgres import status as maintenance_status
from replayfloor.server.stores.policies import NotedPolicy
from replayfloor.server.stores.postgres_options import conninfo_of
from replayfloor.server.stores.postgres_schema import SchemaState, never_migrated, schema_state
from replayfloor.server.stores.protocols import Row
from replayfloor.server.stores.storage_measured import measure

T = TypeVar("T")

CONNECT_S: Final = 5

QUESTION_MS: Final = 5000
"""For one question: a look at the catalogue takes milliseconds, and one that waits for a lock is
answered by that."""

ALL_S: Final = 60.0
"""For all of them: then the connection is cut, for a server that hangs says nothing of itself."""

CLOCK_TRIES: Final = 5

SETTINGS: Final = (
    "autovacuum",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "max_connections",
    "reserved_connections",
    "superuser_reserved_connections",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_counts",
)

PER_ROLE: Final = (
    "default_transaction_isolation",
    "default_transaction_read_only",
    "synchronous_commit",
)
"""Of these, those that a worker's role may have otherwise than ours."""

Clocked = Callable[[], float]


def read_postgres(url: str, *, host_clock: Clocked = time.time) -> PostgresFacts:
    """Return what a server says of itself and of our tables; nothing is raised for what it lacks.

    `host_clock` gives this host's time in seconds since 1970.
    """
    try:
        conninfo = conninfo_of(url)
    except ConfigurationError as error:
        return PostgresFacts(str(error), usable=False)
    try:
        connection: psycopg.Connection[Row] = psycopg.connect(
            conninfo, connect_timeout=CONNECT_S, prepare_threshold=None
        )
    except psycopg.Error as error:
        return PostgresFacts(_reason(error))
    try:
        with connection, cut_off_after(ALL_S, connection):
            connection.read_only = True
            return _all(connection, conninfo, host_clock)
    except psycopg.Error as error:
        return PostgresFacts(_reason(error))


def _all(connection: psycopg.Connection[Row], conninfo: str, clock: Clocked) -> PostgresFacts:
    ask = _Questions(connection)
    answering = ask.one("server.sql", lambda row: _answering(connection, row))
    pooled = isinstance(answering, Answering) and answering.pooled
    bounded = conninfo if pooled else _bounded(conninfo)
    return PostgresFacts(
        answering=answering,
        settings=ask.all("settings.sql", _mapping, names=list(SETTINGS)),
        overrides=ask.all("overrides.sql", _as(Override), names=list(PER_ROLE)),
        clock=ask.guarded(lambda: _clock(connection, clock)),
        schema=_schema(ask),
        indexes=ask.one("indexes.sql", lambda row: _indexes(row)),
        claims=ask.one("claims.sql", lambda row: Claims(*cast("Any", row))),
        claims_table=ask.all("claims_table.sql", _first(ClaimsTable)),
        inbox=_inbox(ask),
        holders=ask.all("holders.sql", _as(Holder)),
        hidden=ask.one("hidden.sql", lambda row: cast("int", row[0])),
        replicas=ask.all("replicas.sql", _as(Replica)),
        connections=ask.one("connections.sql", lambda row: Connections(*cast("Any", row))),
        noted=_noted(ask),
        status=_borrowed(lambda: maintenance_status(bounded)),
        measured=_borrowed(lambda: tuple(measure(bounded))),
    )


class _Questions:
    """Statements on one connection, each in a transaction of its own."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def one(self, file: str, make: Callable[[Row], T], **values: object) -> Read[T]:
        """Return what `make` makes of the one row of a statement."""
        return self.all(file, lambda rows: make(rows[0]), **values)

    def all(self, file: str, make: Callable[[list[Row]], T], **values: object) -> Read[T]:
        """Return what `make` makes of the rows of a statement."""
        return self.guarded(lambda: make(self.rows(load(f"doctor/sql/{file}"), values)))

    def guarded(self, ask: Callable[[], T]) -> Read[T]:
        """Return what `ask` returns, or why it could not be read."""
        try:
            with self._connection.transaction():
                self._connection.execute(
                    "select set_config('statement_timeout', %s, true)", (f"{QUESTION_MS}ms",)
                )
                return ask()
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            return Unread(_reason(error))

    def rows(self, statement: LiteralString, values: Mapping[str, object]) -> list[Row]:
        """Return the rows of a statement."""
        return self._connection.execute(statement, values).fetchall()


def _schema(ask: _Questions) -> Read[SchemaState]:
    def state() -> SchemaState:
        try:
            return schema_state(ask.rows(load("sql/postgres/state.sql"), {})[0])
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            # Raised out of the transaction, which then ends as it has to.
            raise _NeverMigrated from None

    try:
        return ask.guarded(state)
    except _NeverMigrated:
        return never_migrated()


def _noted(ask: _Questions) -> Read[tuple[NotedPolicy, ...]]:
    def noted() -> tuple[NotedPolicy, ...]:
        rows = ask.rows(load("sql/postgres/read_policies.sql"), {})
        return _as(NotedPolicy)(rows)

    return ask.guarded(noted)


def _inbox(ask: _Questions) -> Read[InboxCounts]:
    def counts() -> InboxCounts:
        (row,) = ask.rows(load("sql/postgres/inbox_stats.sql"), {})
        return InboxCounts(*cast("Any", row))

    return ask.guarded(counts)


class _NeverMigrated(Exception):
    pass


def _answering(connection: psycopg.Connection[Row], row: Row) -> Answering:
    pid, version, standby, role, database, sees_all = cast(
        "tuple[int, int, bool, str, str, bool]", row
    )
    # A pooler greets its clients itself, with a number that is no process of the server.
    pooled = pid != connection.info.backend_pid
    return Answering(version, pooled, standby, role, database, sees_all)


def _clock(connection: psycopg.Connection[Row], clock: Clocked) -> Clock:
    """Return the tightest of some readings: the server's clock was read within a round trip."""
    found: list[Clock] = []
    for _try in range(CLOCK_TRIES):
        before = clock()
        row = connection.execute(load("doctor/sql/clock.sql")).fetchone()
        after = clock()
        assert row is not None  # it returns one
        there = cast("float", row[0])
        found.append(Clock(there - after, there - before))
    return min(found, key=lambda reading: reading.uncertain_s)


def _mapping(rows: Sequence[Row]) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in rows}


def _indexes(row: Row) -> Indexes:
    table, unique, without = cast("tuple[bool, bool, list[str]]", row)
    return Indexes(table, unique, tuple(without))


def _as(kind: Callable[..., T]) -> Callable[[list[Row]], tuple[T, ...]]:
    return lambda rows: tuple(kind(*row) for row in rows)


def _first(kind: Callable[..., T]) -> Callable[[list[Row]], T | None]:
    return lambda rows: kind(*rows[0]) if rows else None


def _borrowed(read: Callable[[], T]) -> Read[T]:
    """Return what another part of the package reads, on a connection of its own."""
    try:
        return read()
    except (IdempotencyError, psycopg.Error) as error:
        return Unread(_reason(error))


def _bounded(conninfo: str) -> str:
    """Return a connection string whose sessions only read, and for a limited time.

    Not through a pooler, which may refuse to be told so.
    """
    given = str(conninfo_to_dict(conninfo).get("options") or "")
    ours = f"-c statement_timeout={QUESTION_MS} -c default_transaction_read_only=on"
    return make_conninfo(conninfo, options=f"{given} {ours}".strip())


def _reason(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return " ".join(str(error).split()) or type(error).__name__
