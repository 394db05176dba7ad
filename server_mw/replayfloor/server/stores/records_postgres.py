"""The records in Postgres, with psycopg 3: one connection a call, statements, rows as values."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import ceil
from time import monotonic
from typing import cast
from uuid import UUID

import psycopg

from replayfloor.core.errors import ConfigurationError, SchemaMissing, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, ReceiptId, receipt_id
from replayfloor.core.receipt import decode_receipt
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_connection import BoundedConnection, answered_by
from replayfloor.server.stores.postgres_options import CONNECT_S_MIN, PostgresOptions
from replayfloor.server.stores.protocols import Row
from replayfloor.server.stores.records import (
    CANDIDATES,
    AuditRecord,
    ClaimRecord,
    ReceiptRecord,
    Record,
    id_range,
    only_one,
)

OPERATION_S = 30.0
"""How long one call may take. Longer than an operation of the protocol: a list of receipts reads
through the partitions of its time (0.8 s for a million receipts, measured), and a person waits."""


class PostgresRecords:
    """See `replayfloor.server.stores.records.Records`.

    Args:
        url: `postgresql://…` or any libpq connection string.
        operation_s: seconds until a call raises StoreUnavailable.
    """

    def __init__(self, url: str, *, operation_s: float = OPERATION_S) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        options = PostgresOptions.check(
            url, pool_connections=1, handler_connections=1, operation_s=operation_s
        )
        self._conninfo, self._operation_s = options.conninfo, operation_s
        self._advice = options.advice

    def orphans(self, limit: int, older_than: timedelta = timedelta()) -> list[ClaimRecord]:
        """See Records."""
        return self._claims("records_orphans", {"limit": limit, "older_than": older_than})

    def claims(self, limit: int) -> list[ClaimRecord]:
        """See Records."""
        return self._claims("records_claims", {"limit": limit})

    def _claims(self, name: str, parameters: dict[str, object]) -> list[ClaimRecord]:
        return [_claim(row) for row in self._run(name, parameters)]

    def receipts(self, limit: int, since: timedelta = timedelta(hours=1)) -> list[ReceiptRecord]:
        """See Records."""
        rows = self._run("records_receipts", {"limit": limit, "since": since})
        return [_receipt(row) for row in rows]

    def find(self, id_hex: str) -> Record | None:
        """See Records."""
        lowest, highest = id_range(id_hex)
        parameters: dict[str, object] = {
            "lowest": UUID(bytes=lowest),
            "highest": UUID(bytes=highest),
            "limit": CANDIDATES,
        }
        rows = self._run("records_ids", parameters)
        id_ = only_one([ReceiptId(cast("UUID", row[0]).bytes) for row in rows])
        return None if id_ is None else self._find(id_)

    def find_key(self, namespace: str, principal: str | None, key: str) -> Record | None:
        """See Records."""
        return self._find(receipt_id(namespace, principal, key))

    def _find(self, id_: ReceiptId) -> Record | None:
        """The claim first: it may be finished between the two looks, but not the reverse."""
        parameters: dict[str, object] = {"id": UUID(bytes=id_)}
        for row in self._run("records_claim", parameters):
            return _claim(row)
        for row in self._run("records_receipt", parameters):
            return _receipt(row)
        return None

    def evict(self, id_: ReceiptId, by: str, detail: str = "") -> bool:
        """See Records."""
        parameters: dict[str, object] = {"id": UUID(bytes=id_), "by": by, "detail": detail}
        return bool(self._run("records_evict", parameters))

    def note(self, id_: ReceiptId, by: str, action: str, detail: str = "") -> None:
        """See Records."""
        self._run(
            "records_note",
            {"id": UUID(bytes=id_), "by": by, "action": action, "detail": detail},
        )

    def audit(self, limit: int, id_: ReceiptId | None = None) -> list[AuditRecord]:
        """See Records."""
        key = None if id_ is None else UUID(bytes=id_)
        rows = self._run("records_audit", {"id": key, "limit": limit})
        return [_audit(row) for row in rows]

    # -- one call -------------------------------------------------------------------------------

    def _run(self, name: str, parameters: dict[str, object]) -> list[Row]:
        with self._connected() as database, self._schema_is_there():
            cursor = database.execute(load(f"sql/postgres/{name}.sql"), parameters)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _connected(self) -> Generator[BoundedConnection]:
        deadline = monotonic() + self._operation_s
        try:
            database = BoundedConnection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=max(CONNECT_S_MIN, ceil(self._operation_s)),
            )
        except psycopg.OperationalError as error:
            message = f"no connection to Postgres: {error}"
            raise StoreUnavailable(message, performed=False) from error
        try:
            with answered_by(database, deadline):
                yield database
        finally:
            database.close()

    @contextmanager
    def _schema_is_there(self) -> Generator[None]:
        try:
            yield
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise SchemaMissing(f"the database lacks tables; {self._advice}") from error
        except psycopg.errors.InsufficientPrivilege as error:
            message = f"the database does not let this user do that: {error.diag.message_primary}"
            raise ConfigurationError(message) from error


def _claim(row: Row) -> ClaimRecord:
    id_, fingerprint, claimed_at, lease_until, orphaned = cast(
        "tuple[UUID, UUID, datetime, datetime, bool]", row
    )
    return ClaimRecord(
        ReceiptId(id_.bytes),
        Fingerprint(fingerprint.bytes),
        claimed_at.astimezone(UTC),
        lease_until.astimezone(UTC),
        orphaned,
    )


def _receipt(row: Row) -> ReceiptRecord:
    id_, fingerprint, finished_at, took_ms, status, stored_bytes = cast(
        "tuple[UUID, UUID, datetime, int, int, int]", row[:6]
    )
    response = cast("tuple[bytes, ...]", row[6:])
    return ReceiptRecord(
        ReceiptId(id_.bytes),
        Fingerprint(fingerprint.bytes),
        finished_at.astimezone(UTC),
        took_ms,
        status,
        stored_bytes,
        decode_receipt(fingerprint.bytes, response[0]) if response else None,
    )


def _audit(row: Row) -> AuditRecord:
    noted_at, by_whom, database_user, action, id_, detail = cast(
        "tuple[datetime, str, str, str, UUID, str]", row
    )
    by = f"{by_whom} (as {database_user})"
    return AuditRecord(noted_at.astimezone(UTC), by, action, ReceiptId(id_.bytes), detail)
