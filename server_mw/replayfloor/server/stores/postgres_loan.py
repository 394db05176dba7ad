"""The blocking views of a connection and its cursors; what they guard is written in the base."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self, cast

import psycopg

from replayfloor.server.stores.postgres_view import ConnectionView, CursorView
from replayfloor.server.stores.protocols import Row


class BorrowedConnection(ConnectionView):
    """A `psycopg.Connection` for as long as the transaction lasts."""

    __slots__ = ()

    def cursor(self, name: str = "", **options: object) -> BorrowedCursor:
        """Return a cursor as psycopg's `cursor` does, for as long as the transaction lasts."""
        return BorrowedCursor(self, self.make_cursor(name, options))

    def execute(self, query: object, params: object = None, **options: object) -> BorrowedCursor:
        """Run a statement as psycopg's `execute` does.

        Raises UsageError for one that would end the transaction, and once it has ended.
        """
        return self.cursor().execute(query, params, **options)


class BorrowedCursor(CursorView):
    """A `psycopg.Cursor` whose statements stay inside the transaction."""

    __slots__ = ()

    def execute(self, query: object, params: object = None, **options: object) -> Self:
        """Run a statement. Raises UsageError for one that would end the transaction."""
        self._guarded(query, "execute")(query, params, **options)
        return self

    def executemany(self, query: object, params_seq: object, **options: object) -> None:
        """Run a statement many times. Raises UsageError as `execute` does."""
        self._guarded(query, "executemany")(query, params_seq, **options)

    def close(self) -> None:
        """Close the cursor."""
        if self._is_over():
            # On this side only, as the class above it does it: on the server's it is gone.
            psycopg.Cursor.close(cast("psycopg.Cursor[Row]", self._cursor))
        else:
            self._own().close()

    def __enter__(self) -> Self:
        """Return the cursor itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the cursor."""
        self.close()

    def __iter__(self) -> Iterator[object]:
        """Return the rows that are left, one by one."""
        for row in self._own():
            yield row
            self._usable()

    def _own(self) -> psycopg.Cursor[object]:
        return cast("psycopg.Cursor[object]", self._usable())
