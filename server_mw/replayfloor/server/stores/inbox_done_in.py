"""Removes an event in the transaction of a handler's own connection, in both colours.

One round trip, whatever the library. The transaction stays the handler's.
"""

from __future__ import annotations

from replayfloor.core.claims import Finish
from replayfloor.server.resources import load
from replayfloor.server.stores.inbox import fence_parameters
from replayfloor.server.stores.postgres_finish_in import ended_in, ended_in_async

DONE = "sql/postgres/inbox_done.sql"


def done_in(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.inbox.Inbox.done_in`."""
    return ended_in(connection, load(DONE), fence_parameters(finish))


async def done_in_async(connection: object, finish: Finish) -> bool:
    """See `replayfloor.server.stores.inbox.AsyncInbox.done_in`."""
    return await ended_in_async(connection, load(DONE), fence_parameters(finish))
