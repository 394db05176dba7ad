"""Finishes a claim in the transaction of a handler's own connection to Postgres, in both colours.

One round trip, whatever the library. The transaction stays the handler's.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from replayfloor.core.claims import Finish
from replayfloor.server.resources import load
from replayfloor.server.stores import own_libraries, own_libraries_async
from replayfloor.server.stores.own_connection import refuse_autocommit, unknown
from replayfloor.server.stores.postgres_link import AnyConnection
from replayfloor.server.stores.postgres_values import finish_parameters

USABLE = "psycopg.Connection, SQLAlchemy's Connection and Session, django.db.connection"
USABLE_ASYNC = "psycopg.AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession"


def finish_in(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.Receipts.finish_in`."""
    statement, values = load("sql/postgres/finish.sql"), finish_parameters(finish)
    if run := own_libraries.library_run(connection, "postgresql"):
        return bool(run(statement, values)[0][0])
    if not isinstance(connection, psycopg.Connection):
        raise unknown(connection, USABLE)
    own: psycopg.Connection[Any] = connection  # pyright: ignore[reportUnknownVariableType]
    _refuse_autocommit(own)
    # The connection's own factories may make other cursors and other rows.
    with psycopg.Cursor(own, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, values).fetchone() == (True,)


async def finish_in_async(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
    statement, values = load("sql/postgres/finish.sql"), finish_parameters(finish)
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
