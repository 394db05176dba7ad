"""Ends a claim, or an event of the inbox, in a handler's own transaction in Postgres. Both colours.

One round trip, whatever the library. The transaction stays the handler's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, LiteralString

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from replayfloor.core.claims import Finish
from replayfloor.server.resources import load
from replayfloor.server.stores import own_libraries, own_libraries_async
from replayfloor.server.stores.own_connection import refuse_autocommit, unknown
from replayfloor.server.stores.postgres_link import AnyConnection
from replayfloor.server.stores.postgres_values import finish_parameters

FINISH: Final = "sql/postgres/finish.sql"

USABLE = "psycopg.Connection, SQLAlchemy's Connection and Session, django.db.connection"
USABLE_ASYNC = "psycopg.AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession"


def finish_in(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.Receipts.finish_in`."""
    return ended_in(connection, load(FINISH), finish_parameters(finish))


async def finish_in_async(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
    return await ended_in_async(connection, load(FINISH), finish_parameters(finish))


def ended_in(connection: object, statement: LiteralString, values: Mapping[str, object]) -> bool:
    """Run a fenced statement on a handler's connection; return what it says. Raises UsageError."""
    if run := own_libraries.library_run(connection, "postgresql"):
        return bool(run(statement, values)[0][0])
    if not isinstance(connection, psycopg.Connection):
        raise unknown(connection, USABLE)
    own: psycopg.Connection[Any] = connection  # pyright: ignore[reportUnknownVariableType]
    _refuse_autocommit(own)
    # The connection's own factories may make other cursors and other rows.
    with psycopg.Cursor(own, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, values).fetchone() == (True,)


async def ended_in_async(
    connection: object, statement: LiteralString, values: Mapping[str, object]
) -> bool:
    """See `ended_in`."""
    if run := await own_libraries_async.library_run(connection, "postgresql"):
        return bool((await run(statement, values))[0][0])
    if not isinstance(connection, psycopg.AsyncConnection):
        raise unknown(connection, USABLE_ASYNC)
    own: psycopg.AsyncConnection[Any] = connection  # pyright: ignore[reportUnknownVariableType]
    _refuse_autocommit(own)
    async with psycopg.AsyncCursor(own, row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone() == (True,)


def _refuse_autocommit(connection: AnyConnection) -> None:
    idle = connection.info.transaction_status is TransactionStatus.IDLE
    refuse_autocommit(connection.autocommit and idle)
