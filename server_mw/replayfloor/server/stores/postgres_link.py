"""The link to the server, whatever the colour: is it dead, cut it, and what its silence means."""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import TypeAlias

import psycopg
from psycopg.pq import ConnStatus

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores.postgres_schema import OUTSIDE, is_outside
from replayfloor.server.stores.protocols import Row

CUT_S = 1.0
"""How long whoever waits at a link that was cut gets to notice it; it takes no round trip."""

CLAIM_LOST = "RF001"
"""The error by which finish_or_fail_v1 says that the claim is another's."""

ENDED = "the claim's transaction has ended; nothing can be written any more"

NOT_QUIET = "a statement of the handler was still running; it was rolled back with all others"

log = logging.getLogger("replayfloor.server")

AnyConnection: TypeAlias = psycopg.AsyncConnection[Row] | psycopg.Connection[Row]


def seconds_left(deadline: float) -> float:
    """Return how long it is until a moment of `time.monotonic`; 0 after it."""
    return inf if deadline == inf else max(0.0, deadline - monotonic())


def is_cut(connection: AnyConnection) -> bool:
    """Say whether the server has closed an idle connection; no round trip.

    After a restart of the server every idle connection is dead, and each would cost one request.
    A dead one shows by an end of file that waits to be read.
    """
    try:
        if not _has_something(connection.pgconn.socket):
            return False
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as peek:
            peek.setblocking(False)
            first = peek.recv(1, socket.MSG_PEEK)
        if connection.pgconn.ssl_in_use and first:
            return _is_cut_by_tls(connection)
    except BlockingIOError:
        return False
    except (OSError, psycopg.Error):
        return True
    # "E": an error to nobody's statement is the server's farewell.
    return first in (b"", b"E")


def _has_something(descriptor: int) -> bool:
    """Say whether there is something to read, the end or an error of the link included."""
    poller = select.poll()  # not `select.select`, which takes no descriptor above 1023
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


def _is_cut_by_tls(connection: AnyConnection) -> bool:
    """What waits is encrypted: let libpq read it, and then, if it was a farewell, the end of file.

    Raises OperationalError at the end of file. Reading does not block.
    """
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()
    return connection.pgconn.status != ConnStatus.OK


def cut(connection: AnyConnection) -> None:
    """Shut the socket down: whoever waits at it, in any thread or task, meets an end of file."""
    # A duplicate, so that the descriptor stays psycopg's to close.
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def require_open(connection: AnyConnection) -> None:
    """Raise StoreUnavailable if a COMMIT would not be sent.

    psycopg leaves a transaction block on a connection that was closed without a word.
    """
    if connection.closed:
        raise StoreUnavailable("the connection was closed before the COMMIT", performed=False)


def is_of_an_entry(error: psycopg.Error | StoreUnavailable) -> bool:
    """Say whether a statement for several entries was rolled back because of one of them.

    The server has said so, and it is there: such as a receipt that meets no partition, a deadlock,
    a value that is too long. Its own end (class 57) and its troubles (53, 58) meet all alike.
    """
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    return state is not None and state[:2] in _OF_A_STATEMENT


_OF_A_STATEMENT = frozenset({"21", "22", "23", "40", "55"})
"""Classes of errors (Postgres, appendix A): cardinality, data, constraints, rollbacks such as that
of a deadlock, and objects not in the required state, such as a lock that was not had in time."""


@contextmanager
def silence_is_unavailable(connection: AnyConnection) -> Generator[None]:
    """Turn "no answer" into StoreUnavailable; errors of the statement itself pass through.

    But for a receipt that meets no partition: that is no fault of the statement.
    """
    try:
        yield
    except psycopg.errors.CheckViolation as error:
        if not is_outside(error.diag.sqlstate, error.diag.schema_name, error.diag.constraint_name):
            raise
        log.error("%s", OUTSIDE)
        raise StoreUnavailable(OUTSIDE, performed=False) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        # A failover has left the connection on what is a standby now.
        connection.pgconn.finish()
        raise StoreUnavailable("Postgres is read-only", performed=False) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreUnavailable(f"Postgres did not answer: {error!r}") from error
