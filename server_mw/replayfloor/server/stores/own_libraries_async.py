"""How statements run in the transaction that a handler has open with SQLAlchemy's asyncio part.

The transaction stays the handler's, as in the blocking own_libraries.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, LiteralString, TypeAlias

from replayfloor.core.errors import UsageError
from replayfloor.server.stores.own_connection import comes_from, refuse_other_database
from replayfloor.server.stores.own_libraries import Database, refuse_sqlalchemy_autocommit
from replayfloor.server.stores.placeholders import with_colons
from replayfloor.server.stores.protocols import Row

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

AsyncRun: TypeAlias = Callable[[LiteralString, Mapping[str, object]], Awaitable[Sequence[Row]]]
"""Runs a statement of sql/… in the handler's transaction and returns its rows."""


async def library_run(connection: object, database: Database) -> AsyncRun | None:
    """Return how statements run on the connection of a library; None for one that is of none.

    Raises UsageError as the blocking one does.
    """
    if comes_from("sqlalchemy.ext.asyncio", connection):
        return partial(_in_sqlalchemy, await _sqlalchemy_connection(connection, database))
    if comes_from("sqlalchemy", connection) or comes_from("django", connection):
        raise UsageError("the store is asynchronous, and the connection would block its event loop")
    return None


async def _sqlalchemy_connection(connection: object, database: Database) -> AsyncConnection:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(connection, async_scoped_session | AsyncSession):
        connection = await connection.connection()
    if not isinstance(connection, AsyncConnection):
        raise UsageError("of SQLAlchemy, an AsyncConnection or an AsyncSession is usable")
    refuse_other_database(database, connection.dialect.name)
    refuse_sqlalchemy_autocommit(await connection.get_raw_connection(), database)
    return connection


async def _in_sqlalchemy(
    connection: AsyncConnection, statement: LiteralString, values: Mapping[str, object]
) -> Sequence[Row]:
    from sqlalchemy import text

    result = await connection.execute(text(with_colons(statement)), dict(values))
    return [tuple(row) for row in result.all()] if result.returns_rows else ()
