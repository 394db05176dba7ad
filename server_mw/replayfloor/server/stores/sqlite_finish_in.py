"""Finishes a claim in the transaction of a handler's own connection to the file, in both colours.

Two short statements. The transaction stays the handler's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import LiteralString, Protocol, cast

from replayfloor.core.claims import Finish
from replayfloor.server.stores import own_libraries, own_libraries_async
from replayfloor.server.stores.own_connection import (
    SQLiteMode,
    comes_from,
    refuse_sqlite_autocommit,
    unknown,
)
from replayfloor.server.stores.own_libraries_async import AsyncRun
from replayfloor.server.stores.protocols import Row
from replayfloor.server.stores.sqlite_work import (
    FinishSteps,
    carry_out,
    finish_claim,
    finish_steps,
)

USABLE = "sqlite3.Connection, SQLAlchemy's Connection and Session, django.db.connection"
USABLE_ASYNC = (
    "sqlite3.Connection, aiosqlite.Connection, SQLAlchemy's AsyncConnection and AsyncSession"
)


class AioSQLiteConnection(SQLiteMode, Protocol):
    """What is used of `aiosqlite.Connection`."""

    async def cursor(self) -> AioSQLiteCursor:
        """Return a cursor."""
        ...


class AioSQLiteCursor(Protocol):
    """What is used of `aiosqlite.Cursor`."""

    row_factory: object

    async def execute(self, sql: str, parameters: Mapping[str, object]) -> object:
        """Run a statement."""
        ...

    async def fetchall(self) -> Iterable[Row]:
        """Return the rows."""
        ...

    async def close(self) -> None:
        """Close the cursor."""
        ...


def finish_in(connection: object, finish: Finish, now_ms: Callable[[], int]) -> bool:
    """See `replayfloor.server.stores.Receipts.finish_in`."""
    if run := own_libraries.library_run(connection, "sqlite"):
        return carry_out(finish_steps(finish, now_ms), run)
    if not isinstance(connection, sqlite3.Connection):
        raise unknown(connection, USABLE)
    refuse_sqlite_autocommit(connection)
    return finish_claim(connection, finish=finish, now_ms=now_ms)


async def finish_in_async(connection: object, finish: Finish, now_ms: Callable[[], int]) -> bool:
    """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
    if isinstance(connection, sqlite3.Connection):
        # In place: it belongs to the thread that made it.
        return finish_in(connection, finish, now_ms)
    run = await own_libraries_async.library_run(connection, "sqlite")
    if run is None:
        if not comes_from("aiosqlite", connection):
            raise unknown(connection, USABLE_ASYNC)
        own = cast("AioSQLiteConnection", connection)
        refuse_sqlite_autocommit(own)
        run = partial(_in_aiosqlite, own)
    return await _carry_out(finish_steps(finish, now_ms), run)


async def _in_aiosqlite(
    connection: AioSQLiteConnection, statement: LiteralString, values: Mapping[str, object]
) -> Sequence[Row]:
    cursor = await connection.cursor()
    try:
        cursor.row_factory = None
        await cursor.execute(statement, values)
        return list(await cursor.fetchall())
    finally:
        await cursor.close()


async def _carry_out(steps: FinishSteps, run: AsyncRun) -> bool:
    try:
        statement, values = next(steps)
        while True:
            statement, values = steps.send(await run(statement, values))
    except StopIteration as stop:
        return bool(stop.value)
