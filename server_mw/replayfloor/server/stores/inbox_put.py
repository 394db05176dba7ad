"""Puts an event into the inbox, in the transaction that is open, in both colours.

One round trip, whatever library the connection is of. Whether the transaction is committed is its
owner's affair: that is what makes an acknowledgement and its event one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.resources import load
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores import own_libraries, own_libraries_async
from replayfloor.server.stores.postgres_values import Values
from replayfloor.server.webhooks.inbox.request import StoredRequest, decode_request, encode_request
from replayfloor.server.webhooks.inbox.values import SUBJECT_CHARS_MAX, InboxItem, storable

if TYPE_CHECKING:
    from replayfloor.server.stores.protocols import AsyncConnection, Connection

UNREADABLE = "the stored request is sealed, and no key of response_cipher opens it"


async def put_async(connection: AsyncConnection, item: InboxItem, sealer: Sealer) -> bool:
    """Insert the event, unless it stands there; say whether it is new.

    `connection` is a claim's (psycopg's, or SQLAlchemy's to Postgres). Errors of the database pass
    through.
    """
    statement, values = load("sql/postgres/inbox_put.sql"), put_parameters(item, sealer)
    if run := await own_libraries_async.library_run(connection, "postgresql"):
        return bool((await run(statement, values))[0][0])
    row = await (await connection.execute(statement, values)).fetchone()
    return row == (True,)


def put(connection: Connection, item: InboxItem, sealer: Sealer) -> bool:
    """Do the same blocking; Django's connection will do too."""
    statement, values = load("sql/postgres/inbox_put.sql"), put_parameters(item, sealer)
    if run := own_libraries.library_run(connection, "postgresql"):
        return bool(run(statement, values)[0][0])
    return connection.execute(statement, values).fetchone() == (True,)


def put_parameters(item: InboxItem, sealer: Sealer) -> Values:
    """Return the parameters of inbox_put.sql."""
    subject_id = item.subject_id
    request, sealed = seal_request(item.request, sealer)
    return {
        "id": UUID(bytes=item.id),
        "namespace": item.namespace,
        "source": storable(item.source),
        "endpoint": storable(item.endpoint),
        "event_id": storable(item.event_id),
        "subject": None if item.subject is None else storable(item.subject[:SUBJECT_CHARS_MAX]),
        "subject_id": None if subject_id is None else UUID(bytes=subject_id),
        "occurred_ms": item.occurred_ms,
        "past_horizon": item.past_horizon,
        "request": request,
        "sealed": sealed,
    }


# -- at rest --------------------------------------------------------------------------------------

_NOBODYS = Fingerprint(b"")


def seal_request(request: StoredRequest, sealer: Sealer) -> tuple[bytes, bool]:
    """Return what is stored of a request, and whether it is enciphered: all of it, or nothing.

    With `response_cipher`, so is the request, which waits for minutes where a receipt waits for
    weeks, and holds more: the sender's payload, and headers such as cookies and credentials.
    """
    kept = sealer.seal(Receipt(_NOBODYS, Response(200, (), encode_request(request))))
    return kept.response.body, kept.sealed


def open_request(data: bytes, sealer: Sealer, *, sealed: bool) -> StoredRequest:
    """Return the request. Raises ReceiptCorrupt, and UsageError if no key opens it."""
    if not sealed:
        return decode_request(data)
    opened = sealer.open(Receipt(_NOBODYS, Response(200, (), data), sealed=True))
    if opened.tombstone:
        raise UsageError(UNREADABLE)
    return decode_request(opened.response.body)
