"""Where the inbox is, what it can do, and its rows as values. Contracts only; no connection.

The contract of each operation is the docstring of its effect
(`replayfloor.server.webhooks.inbox.effects`); the suite that holds both colours to it is
`replayfloor.testing.inbox_contract`.
"""

from __future__ import annotations

from typing import Protocol, cast
from uuid import UUID

from replayfloor.core.claims import Fence, Finish, Renew
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server import clock
from replayfloor.server.stores.postgres_values import Values
from replayfloor.server.stores.protocols import AsyncTransaction, Row, Transaction
from replayfloor.server.webhooks.inbox.effects import Bury, CommitDone, Done, Later
from replayfloor.server.webhooks.inbox.values import Taken

ERROR_CHARS_MAX = 300
"""Characters of a failure that are kept: a type's name and a status, with room."""

ONLY_POSTGRES = (
    'ack="first" keeps acknowledged events in an inbox, which there is in Postgres only: use '
    'receipts="postgresql://…", or ack="after"'
)
NEEDS_URL = (
    'ack="first" needs the receipts as a URL, postgresql://…: the workers of the inbox have '
    "connections of their own"
)


def inbox_url(receipts: object) -> str:
    """Return the URL of the inbox beside a middleware's receipts.

    Raises ConfigurationError for receipts in SQLite, and for an instance.
    """
    if not isinstance(receipts, str):
        raise ConfigurationError(
            ONLY_POSTGRES if "SQLite" in type(receipts).__name__ else NEEDS_URL
        )
    if receipts.partition(":")[0] not in ("postgresql", "postgres"):
        raise ConfigurationError(ONLY_POSTGRES)
    return receipts


class AsyncInbox(Protocol):
    """The inbox. Any number of tasks of one event loop may use one."""

    async def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Give every connection back; may be called again, and `open` may follow."""
        ...

    async def take(self, fence: Fence, lease_ms: int, *, again: bool = False) -> Taken | None:
        """Keep the contract of Take."""
        ...

    async def renew(self, renew: Renew) -> bool:
        """Keep the contract of Renew, for an event."""
        ...

    async def done(self, done: Done) -> bool:
        """Keep the contract of Done."""
        ...

    async def later(self, later: Later) -> bool:
        """Keep the contract of Later."""
        ...

    async def bury(self, bury: Bury) -> bool:
        """Keep the contract of Bury."""
        ...

    async def begin(self) -> AsyncTransaction:
        """Open the transaction that a handler writes in. Raises StoreUnavailable.

        Its commit keeps the contract of CommitDone.
        """
        ...

    async def done_in(self, connection: object, finish: Finish) -> bool:
        """Remove the event inside the transaction that is open on the handler's own connection.

        Returns whether it was still the fence's; see `AsyncReceipts.finish_in`.
        """
        ...


class Inbox(Protocol):
    """See AsyncInbox. Any number of threads may use one; no call blocks without a limit."""

    def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        ...

    def close(self) -> None:
        """Give every connection back; may be called again, and `open` may follow."""
        ...

    def take(self, fence: Fence, lease_ms: int, *, again: bool = False) -> Taken | None:
        """Keep the contract of Take."""
        ...

    def renew(self, renew: Renew) -> bool:
        """Keep the contract of Renew, for an event."""
        ...

    def done(self, done: Done) -> bool:
        """Keep the contract of Done."""
        ...

    def later(self, later: Later) -> bool:
        """Keep the contract of Later."""
        ...

    def bury(self, bury: Bury) -> bool:
        """Keep the contract of Bury."""
        ...

    def begin(self) -> Transaction:
        """Open the transaction that a handler writes in. Raises StoreUnavailable.

        Its commit keeps the contract of CommitDone.
        """
        ...

    def done_in(self, connection: object, finish: Finish) -> bool:
        """See AsyncInbox.done_in."""
        ...


# -- parameters and rows --------------------------------------------------------------------------

_NO_RECEIPT = Receipt(Fingerprint(b""), Response(200, (), b""))


def commit_of(done: CommitDone) -> Finish:
    """Return what a transaction of the inbox is committed with: no receipt, it has one already."""
    return Finish(done.id, done.fence, _NO_RECEIPT)


def fence_parameters(effect: Done | Finish) -> Values:
    """Return the parameters of inbox_done.sql and inbox_done_or_fail.sql."""
    return {"id": UUID(bytes=effect.id), "fence": UUID(bytes=effect.fence)}


def later_parameters(later: Later) -> Values:
    """Return the parameters of inbox_later.sql."""
    return {
        "id": UUID(bytes=later.id),
        "fence": UUID(bytes=later.fence),
        "after_ms": later.after_ms,
        "error": later.error[:ERROR_CHARS_MAX],
        "counts": later.counts,
    }


def bury_parameters(bury: Bury) -> Values:
    """Return the parameters of inbox_bury.sql."""
    return {
        "id": UUID(bytes=bury.id),
        "fence": UUID(bytes=bury.fence),
        "error": bury.error[:ERROR_CHARS_MAX],
    }


def take_parameters(namespace: str, fence: Fence, lease_ms: int, *, again: bool) -> Values:
    """Return the parameters of inbox_take.sql."""
    return {
        "namespace": namespace,
        "fence": UUID(bytes=fence),
        "lease_ms": lease_ms,
        "again": again,
    }


def taken_of(row: Row, namespace: str, fence: Fence) -> Taken:
    """Return what a row of inbox_take.sql says."""
    id_, source, endpoint, event_id, subject, ordered, occurred_ms, received_ms = cast(
        "tuple[UUID, str, str, str, str | None, bool, int | None, int]", row[:8]
    )
    past_horizon, attempts, taken_over, stored, sealed = cast(
        "tuple[bool, int, bool, bytes, bool]", row[8:]
    )
    return Taken(
        id=ReceiptId(id_.bytes),
        fence=fence,
        namespace=namespace,
        source=source,
        endpoint=endpoint,
        event_id=event_id,
        subject=subject,
        ordered=ordered,
        occurred_ms=occurred_ms,
        age_ms=None if occurred_ms is None else max(0, clock.wall_ms() - occurred_ms),
        received_ms=received_ms,
        past_horizon=past_horizon,
        attempts=attempts,
        taken_over=taken_over,
        stored=bytes(stored),
        sealed=sealed,
    )
