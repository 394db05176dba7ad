"""Removes an event in the transaction of a handler's own connection, in both colours.

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
from replayfloor.server.stores.inbox import fence_parameters
from replayfloor.server.stores.own_connection import refuse_autocommit, unknown
from replayfloor.server.stores.postgres_finish_in import USABLE, USABLE_ASYNC
from replayfloor.server.stores.postgres_link import AnyConnection

DONE = "sql/postgres/inbox_done.sql"


def done_in(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.inbox.Inbox.done_in`."""
    statement, values = load(DONE), fence_parameters(finish)
    if run := own_libraries.library_run(connection, "postgresql"):
        return bool(run(statement, values)[0][0])
    if not isinstance(connection, psycopg.Connection):
        raise unknown(connection, USABLE)
    own: psycopg.Connection[Any] = connection  # pyright: ignore[reportUnknownVariableType]
    _refuse_autocommit(own)
    with psycopg.Cursor(own, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, values).fetchone() == (True,)


async def done_in_async(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.inbox.AsyncInbox.done_in`."""
    statement, values = load(DONE), fence_parameters(finish)
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
