"""What a handler gets to see of the connection that its transaction runs on, in either colour.

The connection is somebody else's once the transaction has ended: what a handler writes late (in a
thread or task that it left behind, say) would end up in the transaction of another request. And
the transaction ends with the receipt: a COMMIT of the handler's own would leave its writes without
one. So the ways to a statement lead through here.
"""

from __future__ import annotations

from typing import Protocol, cast

import psycopg
from psycopg import sql
from psycopg.abc import AdaptContext
from psycopg.rows import RowFactory, tuple_row

from replayfloor.core.errors import UsageError
from replayfloor.server.stores.postgres_link import AnyConnection
from replayfloor.server.stores.statements import refuse_postgres_control


class Lender(Protocol):
    """The transaction, as far as its views need it."""

    @property
    def lent(self) -> bool:
        """Whether the handler may still use the connection."""
        ...

    def lend(self) -> AnyConnection:
        """Return the connection. Raises UsageError once the transaction has ended."""
        ...


class Method(Protocol):
    """A method of a psycopg cursor that takes a query."""

    def __call__(self, query: object, params: object, /, **options: object) -> object:
        """Run, or begin to run, the query."""
        ...


class _Maker(Protocol):
    def __call__(self, name: str, /, **options: object) -> object: ...


class ConnectionView:
    """A psycopg connection for as long as the transaction lasts.

    Attributes:
        row_factory: how psycopg makes rows, for the cursors made here.
    """

    __slots__ = ("lender", "row_factory")

    row_factory: RowFactory[object]

    def __init__(self, lender: Lender) -> None:
        """Look at the connection of a transaction."""
        self.lender = lender
        self.row_factory = tuple_row

    def make_cursor(self, name: str, options: dict[str, object]) -> object:
        """Return a cursor of psycopg. Raises UsageError once the transaction ended."""
        make = cast("_Maker", self.lender.lend().cursor)
        return make(name, **{"row_factory": self.row_factory, **options})

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the connection. Raises UsageError once the transaction ended."""
        if name == "wait":
            # What cursors of other classes go through, if they are made on this view.
            raise UsageError("make cursors with connection.cursor(), which guards the transaction")
        value: object = getattr(self.lender.lend(), name)
        return value


class CursorView:
    """A psycopg cursor whose statements stay inside the transaction."""

    __slots__ = ("_cursor", "_on_the_server", "connection")

    def __init__(self, connection: ConnectionView, cursor: object) -> None:
        """Look at a cursor on the connection of a transaction."""
        self.connection = connection
        self._on_the_server = isinstance(cursor, psycopg.ServerCursor | psycopg.AsyncServerCursor)
        self._cursor = cursor

    def stream(self, query: object, params: object = None, **options: object) -> object:
        """Read row by row, as psycopg's `stream` does. Raises UsageError as `execute` does."""
        return self._guarded(query, "stream")(query, params, **options)

    def copy(self, statement: object, params: object = None, **options: object) -> object:
        """Begin a COPY, as psycopg's `copy` does. Raises UsageError as `execute` does."""
        return self._guarded(statement, "copy")(statement, params, **options)

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the cursor."""
        value: object = getattr(self._usable(), name)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the cursor, such as `row_factory`."""
        if name in CursorView.__slots__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._usable(), name, value)

    def _usable(self) -> object:
        # Rows that were fetched may be read for ever; a cursor on the server asks it for them.
        if self._on_the_server:
            self.connection.lender.lend()
        return self._cursor

    def _is_over(self) -> bool:
        """Whether the cursor has gone, with its transaction, where it was: on the server."""
        return self._on_the_server and not self.connection.lender.lent

    def _guarded(self, query: object, method: str) -> Method:
        refuse_postgres_control(_text_of(query, self.connection.lender.lend()))
        return cast("Method", getattr(self._cursor, method))


def _text_of(query: object, context: AdaptContext) -> str:
    match query:
        case str():
            return query
        case bytes():
            return query.decode("latin-1")  # the words that matter are ASCII in any encoding
        case sql.Composable():
            return query.as_string(context)
        case _:
            # A template string of Python 3.14, which psycopg reads from 3.3 on.
            return sql.as_string(query, context) if hasattr(sql, "as_string") else ""
