"""One statement after the other on a connection whose socket an event loop watches.

psycopg's own asynchronous waits begin and end the watching for every answer, and its cursors adapt
parameters of any type; both take longer than the rest of an operation. What is sent and how it is
read stays psycopg's and libpq's.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Final, LiteralString

import psycopg
from psycopg import errors, pq, waiting
from psycopg.abc import PQGen
from psycopg.pq.abc import PGresult

from replayfloor.server.stores.postgres_connection_async import Connection
from replayfloor.server.stores.postgres_direct import Written, asked
from replayfloor.server.stores.postgres_link import seconds_left, silence_is_unavailable

_READ: Final = waiting.READY_R
_WRITE: Final = waiting.READY_W
_WAITS_TO_WRITE: Final = waiting.WAIT_W


class Wire:
    """A connection for statements of the protocol, one at a time, on the event loop that runs.

    The descriptor that is watched is a duplicate: libpq closes its own when the link is lost, and
    a loop must not watch a number that may be another file's by then.
    """

    __slots__ = ("_answer", "_loop", "_socket", "_statement", "_watched", "_writing", "connection")

    def __init__(self, connection: Connection) -> None:
        """Begin to watch. Raises OperationalError if the connection is closed."""
        self.connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.pgconn.socket))
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._statement: PQGen[list[PGresult]] | None = None
        self._answer: asyncio.Future[list[PGresult]] | None = None
        self._writing = False
        self._loop.add_reader(self._socket.fileno(), self._on_readable)
        self._watched = True

    def leave(self) -> None:
        """Watch no longer: the connection is to be used, or closed, by others."""
        if self._watched:
            self._unwatch()
        self._socket.close()

    def is_quiet(self) -> bool:
        """Say whether the server has said nothing since the last answer, and so no farewell.

        After its restart every idle connection is dead, and each would cost one request.
        """
        if not self._watched:
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def ask(self, query: LiteralString, written: Written, deadline: float) -> PGresult:
        """Return the rows of a statement. Raises StoreUnavailable, and what the server refuses.

        Written in this step of the event loop. At the deadline the link is cut, and the wait meets
        an end of file: to ask a server that hangs to cancel would mean to wait for its answer.
        Whoever is cancelled leaves a connection on which an answer is under way.
        """
        self._answer = answer = self._loop.create_future()
        self._statement = asked(self.connection.pgconn, query, written)
        timer = self._loop.call_later(seconds_left(deadline), self._on_late, answer)
        try:
            self._go_on(None)
            result: PGresult
            (result,) = await answer
            if result.status != pq.ExecStatus.TUPLES_OK:
                raise errors.error_from_result(result)
        except psycopg.Error:
            with silence_is_unavailable(self.connection):
                raise
        finally:
            timer.cancel()
            self._statement = self._answer = None
        return result

    def _on_late(self, answer: asyncio.Future[list[PGresult]]) -> None:
        """End the wait here, whether or not the loop will hear of the end of the link."""
        self._statement = None
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not answer.done():
            answer.set_exception(psycopg.OperationalError("the time for the operation is over"))

    def _on_readable(self) -> None:
        if self._statement is None:
            # To nobody's statement: `is_quiet` says so, and the loop would call for ever.
            self._unwatch()
        else:
            self._go_on(_READ)

    def _on_writable(self) -> None:
        if self._statement is not None:
            self._go_on(_WRITE)

    def _go_on(self, ready: waiting.Ready | None) -> None:
        """Let psycopg read or write what it can, here and not in the task that waits.

        The loop calls again for what is still to be read, before the task had its turn.
        """
        statement, answer = self._statement, self._answer
        assert statement is not None
        assert answer is not None
        waits = 0
        try:
            waits = next(statement) if ready is None else statement.send(ready)
        except StopIteration as over:
            self._statement = None
            if not answer.done():
                answer.set_result(over.value)
        except Exception as error:  # noqa: BLE001 - raised in the task that waits
            self._statement = None
            if not answer.done():
                answer.set_exception(error)
        if (waits & _WAITS_TO_WRITE != 0) != self._writing:
            self._turn_writing()

    def _turn_writing(self) -> None:
        """Watch whether the socket takes more, or no longer: only for what exceeds its buffer."""
        self._writing = not self._writing
        if self._writing:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def _unwatch(self) -> None:
        self._watched = False
        if not self._loop.is_closed():  # as another one is, in which the store was used before
            self._loop.remove_reader(self._socket.fileno())
            if self._writing:
                self._turn_writing()
