"""The asynchronous views of a connection and its cursors; what they guard is in the base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Self, cast

import psycopg

from replayfloor.server.stores.postgres_view import ConnectionView, CursorView
from replayfloor.server.stores.protocols import Row


class AsyncBorrowedConnection(ConnectionView):
    """A `psycopg.AsyncConnection` for as long as the transaction lasts."""

    __slots__ = ()

    def cursor(self, name: str = "", **options: object) -> AsyncBorrowedCursor:
        """Return a cursor as psycopg's `cursor` does, for as long as the transaction lasts."""
        return AsyncBorrowedCursor(self, self.make_cursor(name, options))

    async def execute(
        self, query: object, params: object = None, **options: object
    ) -> AsyncBorrowedCursor:
        """Run a statement as psycopg's `execute` does.

        Raises UsageError for one that would end the transaction, and once it has ended.
        """
        return await self.cursor().execute(query, params, **options)


class AsyncBorrowedCursor(CursorView):
    """A `psycopg.AsyncCursor` whose statements stay inside the transaction."""

    __slots__ = ()

    async def execute(self, query: object, params: object = None, **options: object) -> Self:
        """Run a statement. Raises UsageError for one that would end the transaction."""
        run = self._guarded(query, "execute")
        await cast("Awaitable[object]", run(query, params, **options))
        return self

    async def executemany(self, query: object, params_seq: object, **options: object) -> None:
        """Run a statement many times. Raises UsageError as `execute` does."""
        run = self._guarded(query, "executemany")
        await cast("Awaitable[object]", run(query, params_seq, **options))

    async def close(self) -> None:
        """Close the cursor."""
        if self._is_over():
            # On this side only, as the class above it does it: on the server's it is gone.
            await psycopg.AsyncCursor.close(cast("psycopg.AsyncCursor[Row]", self._cursor))
        else:
            await self._own().close()

    async def __aenter__(self) -> Self:
        """Return the cursor itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the cursor."""
        await self.close()

    async def __aiter__(self) -> AsyncIterator[object]:
        """Return the rows that are left, one by one."""
        async for row in self._own():
            yield row
            self._usable()

    def _own(self) -> psycopg.AsyncCursor[object]:
        return cast("psycopg.AsyncCursor[object]", self._usable())
