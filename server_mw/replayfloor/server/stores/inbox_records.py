"""Looking at the inbox, and what a person decides about events in it. Blocking; one connection a
call. No worker is served from here: `replayfloor inbox …` uses it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.inbox import ONLY_POSTGRES
from replayfloor.server.stores.postgres_options import OPERATION_S
from replayfloor.server.stores.postgres_values import Values
from replayfloor.server.stores.protocols import Row
from replayfloor.server.stores.records import CANDIDATES, id_range, only_one
from replayfloor.server.stores.records_postgres import PostgresRecords


@dataclass(frozen=True, slots=True)
class InboxRecord:
    """An event in the inbox.

    Attributes:
        state: "waiting" (also if its worker died), "running" or "dead".
        ordered: whether it waits for earlier events of its subject.
        age: for how long it has been there, by the database's clock.
        due_at: when it may be taken next; in the past if it may be now.
        last_at, last_error: when the last attempt ended, and how; None and empty before the first.
        stored_bytes: of its request.
    """

    id: ReceiptId
    namespace: str
    source: str
    endpoint: str
    event_id: str
    subject: str | None
    ordered: bool
    state: str
    attempts: int
    received_at: datetime
    age: timedelta
    due_at: datetime
    last_at: datetime | None
    last_error: str
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with its request as it is stored, sealed or not."""

    record: InboxRecord
    stored: bytes
    sealed: bool


@dataclass(frozen=True, slots=True)
class InboxStats:
    """What is in an inbox, in numbers.

    Attributes:
        waiting: to be applied, those that failed and are tried again later included.
        running: in the hands of a worker.
        dead: waiting for a person.
        oldest_s: for how long the oldest one that is not dead has been there; None if none is.
    """

    waiting: int
    running: int
    dead: int
    oldest_s: float | None


def inbox_stats(url: str) -> InboxStats:
    """Return the numbers of all namespaces of a database.

    Raises ConfigurationError, StoreUnavailable, SchemaMissing.
    """
    return open_inbox_records(url).stats()


def open_inbox_records(url: str) -> InboxRecords:
    """Return the inbox of a URL. Raises ConfigurationError for one that has none."""
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        raise ConfigurationError(ONLY_POSTGRES)
    return InboxRecords(url)


class InboxRecords(PostgresRecords):
    """The inbox of a database. Every call may raise StoreUnavailable and SchemaMissing.

    Args:
        url: `postgresql://…` or any libpq connection string.
        operation_s: seconds until a call raises StoreUnavailable.
    """

    def __init__(self, url: str, *, operation_s: float = 6 * OPERATION_S) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        super().__init__(url, operation_s=operation_s)

    def stats(self) -> InboxStats:
        """Return the numbers."""
        (row,) = self._run("inbox_stats", {})
        waiting, running, dead, oldest_s = cast("tuple[int, int, int, float | None]", row)
        return InboxStats(waiting, running, dead, oldest_s)

    def events(
        self, limit: int, *, source: str | None = None, dead: bool = False
    ) -> list[InboxRecord]:
        """Return what is there, in the order of arrival: all of it, of one source, or the dead."""
        parameters: Values = {"limit": limit, "source": source, "dead": dead}
        return [_record(row) for row in self._run("inbox_list", parameters)]

    def event(self, id_hex: str) -> StoredEvent | None:
        """Return the event of an id, given as 32 hex digits or at least the first 8 of them.

        Raises UsageError for anything else, and if several ids begin with the digits.
        """
        lowest, highest = id_range(id_hex)
        parameters: Values = {
            "lowest": UUID(bytes=lowest),
            "highest": UUID(bytes=highest),
            "limit": CANDIDATES,
        }
        found = [_stored(row) for row in self._run("inbox_find", parameters)]
        return found[0] if only_one([each.record.id for each in found]) else None

    def retry(self, id_: ReceiptId, by: str, detail: str = "") -> bool:
        """Make an event due at once, with all its attempts before it; note who wanted it.

        Returns whether it was there, and in nobody's hands.
        """
        return bool(self._retry(id_, None, by, detail))

    def retry_dead(self, source: str, by: str, detail: str = "") -> int:
        """Do that for every dead event of a source; return how many there were."""
        return self._retry(None, source, by, detail)

    def _retry(self, id_: ReceiptId | None, source: str | None, by: str, detail: str) -> int:
        key = None if id_ is None else UUID(bytes=id_)
        parameters: Values = {"id": key, "source": source, "by": by, "detail": detail}
        return len(self._run("inbox_retry", parameters))

    def drop(self, id_: ReceiptId, by: str, detail: str) -> bool:
        """Give an event up for good; note who wanted it, and why.

        Returns whether it was there, and in nobody's hands.
        """
        parameters: Values = {"id": UUID(bytes=id_), "by": by, "detail": detail}
        return self._run("inbox_drop", parameters) == [(True,)]


def _record(row: Row) -> InboxRecord:
    id_, namespace, source, endpoint, event_id, subject, ordered, state = cast(
        "tuple[UUID, str, str, str, str, str | None, bool, str]", row[:8]
    )
    attempts, received_at, age, due_at, last_at, last_error, stored_bytes = cast(
        "tuple[int, datetime, timedelta, datetime, datetime | None, str, int]", row[8:15]
    )
    return InboxRecord(
        id=ReceiptId(id_.bytes),
        namespace=namespace,
        source=source,
        endpoint=endpoint,
        event_id=event_id,
        subject=subject,
        ordered=ordered,
        state=state,
        attempts=attempts,
        received_at=received_at.astimezone(UTC),
        age=age,
        due_at=due_at.astimezone(UTC),
        last_at=None if last_at is None else last_at.astimezone(UTC),
        last_error=last_error,
        stored_bytes=stored_bytes,
    )


def _stored(row: Row) -> StoredEvent:
    stored, sealed = cast("tuple[bytes, bool]", row[15:])
    return StoredEvent(_record(row[:15]), bytes(stored), sealed)
