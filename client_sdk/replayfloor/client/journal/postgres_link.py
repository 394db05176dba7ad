"""A connection to Postgres on which no wait is without end; no statements of the journal."""

from __future__ import annotations

from math import ceil, inf
from time import monotonic
from typing import Final, Literal, TypedDict

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus
from psycopg.rows import DictRow, RowFactory, dict_row

from replayfloor.core.errors import ConfigurationError, StoreUnavailable

CONNECT_S_MIN: Final = 2
"""libpq takes no shorter time for connecting."""

WAKE_S: Final = 0.1
"""How often a wait looks at the clock, and at signals; psycopg's own value."""

WAKE_S_MIN: Final = 0.01
"""So that the last moments of a wait are not spent in a busy loop."""

_APPLICATION: Final = "replayfloor journal"


class BoundedConnection(psycopg.Connection[DictRow]):
    """A connection whose waits end at `deadline`, a moment of `time.monotonic`.

    psycopg asks a generator after each interval whether it wants to go on; that is where the
    deadline is looked at. A server that hangs is left alone: to cancel the statement there, one
    would have to wait for its answer.
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
            self.close()  # an answer that still came would be taken for the next statement's
            raise


class Overdue(psycopg.OperationalError):
    """The deadline of a connection has passed."""


def _until(deadline: float, gen: PQGen[RV]) -> PQGen[RV]:
    try:
        state = next(gen)
        while True:
            if monotonic() >= deadline:
                gen.close()
                raise Overdue("no answer in time")
            state = gen.send((yield state))
    except StopIteration as stop:
        value: RV = stop.value
        return value


def seconds_left(deadline: float) -> float:
    """Return how long it is until a moment of `time.monotonic`; 0 after it."""
    return max(0.0, deadline - monotonic())


def conninfo_of(url: str) -> str:
    """Return the connection string of a URL, for texts in UTF-8. Raises ConfigurationError."""
    try:
        name = conninfo_to_dict(url).get("application_name", _APPLICATION)
        return make_conninfo(url, application_name=name, client_encoding="utf8")
    except psycopg.Error:
        # Without the cause: libpq repeats the text, which may hold a password.
        raise ConfigurationError(
            "not a valid Postgres URL or connection string: check its parts, and that special "
            "characters in a user name or password are percent-encoded"
        ) from None


class ConnectOptions(TypedDict):
    """What a connection is made with, besides the connection string."""

    autocommit: bool
    prepare_threshold: int | None
    connect_timeout: int
    row_factory: RowFactory[DictRow]


def connect_options(connect_s: float) -> ConnectOptions:
    """Return how each connection is made: every statement a transaction, none prepared.

    Behind PgBouncer in transaction mode the next statement may meet another server connection.
    """
    return {
        "autocommit": True,
        "prepare_threshold": None,
        "connect_timeout": max(CONNECT_S_MIN, ceil(connect_s)),
        "row_factory": dict_row,
    }


def connected(conninfo: str, deadline: float) -> BoundedConnection:
    """Return a new connection whose waits end at the deadline. Raises StoreUnavailable."""
    options = connect_options(seconds_left(deadline))
    try:
        connection = BoundedConnection.connect(
            conninfo,
            autocommit=options["autocommit"],
            prepare_threshold=options["prepare_threshold"],
            row_factory=options["row_factory"],
            connect_timeout=options["connect_timeout"],
        )
    except psycopg.Error as error:
        raise unavailable(error, performed=False) from error
    connection.deadline = deadline
    return connection


def is_alive(connection: BoundedConnection) -> bool:
    """Say whether the server has not closed an idle connection; no round trip.

    After a restart of the server each of them is dead, and would cost an operation. libpq notices
    when it reads, which does not block: first what the server has said last, then the end.
    """
    try:
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return connection.pgconn.status == ConnStatus.OK  # psycopg's C part returns a bare number


def unavailable(error: Exception, *, performed: Literal[False] | None = None) -> StoreUnavailable:
    """Return the StoreUnavailable for an error of the driver or its pool."""
    text = one_line(error) or type(error).__name__
    return StoreUnavailable(f"Postgres journal: {text}", performed=performed)


def one_line(error: Exception) -> str:
    """Return what the server or the driver has said."""
    return " ".join(str(error).split())
