"""The records in a SQLite file: one connection a call, statements, rows as values."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from replayfloor.core.errors import SchemaMissing, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, ReceiptId, receipt_id
from replayfloor.core.receipt import decode_receipt
from replayfloor.server.resources import load
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
from replayfloor.server.stores.sqlite_work import begin, commit

OPERATION_S = 5.0
"""How long a call waits for other writers of the file; the same as for the receipts."""


class SQLiteRecords:
    """See `replayfloor.server.stores.records.Records`. A missing file is not made.

    Args:
        path: the file of the receipts.
        operation_s: seconds until a call raises StoreUnavailable.
        clock: seconds since 1970; the one of the receipts.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        operation_s: float = OPERATION_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open nothing yet."""
        self._path, self._operation_s, self._clock = Path(path), operation_s, clock

    def orphans(self, limit: int, older_than: timedelta = timedelta()) -> list[ClaimRecord]:
        """See Records."""
        rows = self._run("records_orphans", limit=limit, older_than_ms=_ms(older_than))
        return [_claim(row) for row in rows]

    def claims(self, limit: int) -> list[ClaimRecord]:
        """See Records."""
        return [_claim(row) for row in self._run("records_claims", limit=limit)]

    def receipts(self, limit: int, since: timedelta = timedelta(hours=1)) -> list[ReceiptRecord]:
        """See Records."""
        rows = self._run("records_receipts", limit=limit, since_ms=_ms(since))
        return [_receipt(row) for row in rows]

    def find(self, id_hex: str) -> Record | None:
        """See Records."""
        lowest, highest = id_range(id_hex)
        rows = self._run("records_ids", lowest=lowest, highest=highest, limit=CANDIDATES)
        id_ = only_one([ReceiptId(cast("bytes", row[0])) for row in rows])
        return None if id_ is None else self._find(id_)

    def find_key(self, namespace: str, principal: str | None, key: str) -> Record | None:
        """See Records."""
        return self._find(receipt_id(namespace, principal, key))

    def _find(self, id_: ReceiptId) -> Record | None:
        """The claim first: it may be finished between the two looks, but not the reverse."""
        for row in self._run("records_claim", id=id_):
            return _claim(row)
        for row in self._run("records_receipt", id=id_):
            return _receipt(row)
        return None

    def evict(self, id_: ReceiptId, by: str, detail: str = "") -> bool:
        """See Records."""
        with self._writing() as database:
            gone = database.execute(load("sql/sqlite/records_evict.sql"), {"id": id_}).fetchall()
            for status, finished_ms in gone:
                said = f"status {status}; finished {_time(finished_ms)}"
                line = f"{said}; {detail}" if detail else said
                self._note(database, {"id": id_, "by": by, "action": "evict", "detail": line})
        return bool(gone)

    def note(self, id_: ReceiptId, by: str, action: str, detail: str = "") -> None:
        """See Records."""
        with self._writing() as database:
            self._note(database, {"id": id_, "by": by, "action": action, "detail": detail})

    def _note(self, database: sqlite3.Connection, line: dict[str, object]) -> None:
        database.execute(load("sql/sqlite/records_note.sql"), line | {"now_ms": self._now_ms()})

    def audit(self, limit: int, id_: ReceiptId | None = None) -> list[AuditRecord]:
        """See Records."""
        try:
            return [_audit(row) for row in self._run("records_audit", id=id_, limit=limit)]
        except SchemaMissing:
            # The table is made by the first who writes into it.
            return []

    # -- one call -------------------------------------------------------------------------------

    def _run(self, name: str, **parameters: object) -> Sequence[Row]:
        """Read, without a transaction: who only looks does not wait for a handler that writes."""
        with self._connected() as database:
            values = {"now_ms": self._now_ms()} | parameters
            return database.execute(load(f"sql/sqlite/{name}.sql"), values).fetchall()

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Open the file for one transaction, committed unless something is raised."""
        with self._connected() as database:
            database.execute("pragma synchronous = full")
            begin(database)
            database.execute(load("sql/sqlite/records_audit_table.sql"))
            yield database
            commit(database)

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        """Open the file, which has to exist: a mistyped name must not look like no orphans.

        What was not committed before the end is rolled back.
        """
        try:
            with closing(
                sqlite3.connect(
                    f"{self._path.absolute().as_uri()}?mode=rw",
                    uri=True,
                    timeout=self._operation_s,
                    isolation_level=None,
                )
            ) as database:
                yield database
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                message = f"{self._path} holds no receipts: {error}"
                raise SchemaMissing(message) from error
            raise StoreUnavailable(f"SQLite {self._path}: {error}", performed=False) from error

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _time(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, UTC)


def _claim(row: Row) -> ClaimRecord:
    id_, fingerprint, claimed_ms, lease_ms, orphaned = cast(
        "tuple[bytes, bytes, int, int, int]", row
    )
    return ClaimRecord(
        ReceiptId(id_),
        Fingerprint(fingerprint),
        _time(claimed_ms),
        _time(lease_ms),
        bool(orphaned),
    )


def _receipt(row: Row) -> ReceiptRecord:
    id_, fingerprint, finished_ms, took_ms, status, stored_bytes = cast(
        "tuple[bytes, bytes, int, int, int, int]", row[:6]
    )
    response = cast("tuple[bytes, ...]", row[6:])
    return ReceiptRecord(
        ReceiptId(id_),
        Fingerprint(fingerprint),
        _time(finished_ms),
        took_ms,
        status,
        stored_bytes,
        decode_receipt(fingerprint, response[0]) if response else None,
    )


def _audit(row: Row) -> AuditRecord:
    noted_ms, by_whom, action, id_, detail = cast("tuple[int, str, str, bytes, str]", row)
    return AuditRecord(_time(noted_ms), by_whom, action, ReceiptId(id_), detail)
