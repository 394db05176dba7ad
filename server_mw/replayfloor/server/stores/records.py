"""Looking at claims and receipts, and the few repairs done by hand. Blocking; for people and jobs.

No request is served from here: `replayfloor receipts …` and reconcilers use it. Times are the
database's, so that an orphan is one for everybody alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint, ReceiptId
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores import POSTGRES_MISSING

ID_DIGITS = 2 * DIGEST_BYTES
PREFIX_DIGITS_MIN = 8
"""Eight digits are 32 bits: among a million keys, another one shares them once in 4,000 times."""

CANDIDATES = 5
"""How many ids an ambiguous beginning is answered with: enough to see that it is one."""

NOT_A_URL = "records: expected postgresql://user@host/database or sqlite:///path"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A key in flight, or orphaned: its lease ran out at `lease_until`, by the database's clock."""

    id: ReceiptId
    fingerprint: Fingerprint
    claimed_at: datetime
    lease_until: datetime
    orphaned: bool


@dataclass(frozen=True, slots=True)
class ReceiptRecord:
    """A finished key. `took_ms` is the time from claim to finish, `stored_bytes` what the answer
    takes in the database. The `receipt` itself is read by `find` only: in a list it is None."""

    id: ReceiptId
    fingerprint: Fingerprint
    finished_at: datetime
    took_ms: int
    status: int
    stored_bytes: int
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One thing that was done by hand: `by` whom, when, to which key."""

    at: datetime
    by: str
    action: str
    id: ReceiptId
    detail: str


Record: TypeAlias = ClaimRecord | ReceiptRecord


class Records(Protocol):
    """The claims and receipts of one database. Any number of threads may use one.

    Every call connects anew, so an outage is over when it is over, and nothing is to be closed.
    Every call may raise StoreUnavailable and SchemaMissing; none blocks without a limit.
    """

    def orphans(self, limit: int, older_than: timedelta = timedelta()) -> list[ClaimRecord]:
        """Return the orphans whose lease ran out at least `older_than` ago, longest first."""
        ...

    def claims(self, limit: int) -> list[ClaimRecord]:
        """Return claims, in flight and orphaned, oldest first."""
        ...

    def receipts(self, limit: int, since: timedelta = timedelta(hours=1)) -> list[ReceiptRecord]:
        """Return what was finished during the time `since` before now, latest first.

        The time bounds the work: receipts are not indexed by time, only partitioned by it.
        """
        ...

    def find(self, id_hex: str) -> Record | None:
        """Return the record of an id, given as 32 hex digits or at least the first 8 of them.

        Dashes are ignored, so that the form which `psql` shows will do. Raises UsageError for
        anything else, and if several ids begin with the digits; ReceiptCorrupt for a receipt
        that cannot be decoded.
        """
        ...

    def find_key(self, namespace: str, principal: str | None, key: str) -> Record | None:
        """Return the record of a customer's key, which itself is stored nowhere."""
        ...

    def evict(self, id_: ReceiptId, by: str, detail: str = "") -> bool:
        """Forget the receipt of a finished key, and note it in the audit trail in one commit.

        Returns whether there was one. A retry with the key is executed again. A claim is not
        touched: one in flight is being executed, and an orphan is settled, not forgotten.
        """
        ...

    def note(self, id_: ReceiptId, by: str, action: str, detail: str = "") -> None:
        """Write a line into the audit trail, durably."""
        ...

    def audit(self, limit: int, id_: ReceiptId | None = None) -> list[AuditRecord]:
        """Return what was done by hand, to one key or to any, latest first."""
        ...


def open_records(url: str) -> Records:
    """Return the records of a URL: `postgresql://…` or `sqlite:///path/to/file`.

    Nothing is connected yet. Raises ConfigurationError for any other URL, or if the driver of a
    known one is not installed.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from replayfloor.server.stores.records_sqlite import SQLiteRecords
        from replayfloor.server.stores.sqlite_work import path_of

        return SQLiteRecords(path_of(url))
    if scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(NOT_A_URL)
    try:
        from replayfloor.server.stores.records_postgres import PostgresRecords
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    return PostgresRecords(url)


_DIGITS = re.compile(f"[0-9a-f]{{{PREFIX_DIGITS_MIN},{ID_DIGITS}}}")


def id_range(id_hex: str) -> tuple[ReceiptId, ReceiptId]:
    """Return the lowest and the highest id that begin with the given digits.

    Raises UsageError unless there are from PREFIX_DIGITS_MIN to ID_DIGITS hex digits.
    """
    digits = id_hex.replace("-", "").lower()
    if not _DIGITS.fullmatch(digits):
        raise UsageError(
            f"expected an id of {ID_DIGITS} hex digits, or at least its first {PREFIX_DIGITS_MIN}"
        )
    lowest, highest = digits.ljust(ID_DIGITS, "0"), digits.ljust(ID_DIGITS, "f")
    return ReceiptId(bytes.fromhex(lowest)), ReceiptId(bytes.fromhex(highest))


def only_one(ids: list[ReceiptId]) -> ReceiptId | None:
    """Return the one id that was found, or None. Raises UsageError for several."""
    if len(ids) > 1:
        shown = ", ".join(id_.hex() for id_ in ids[:CANDIDATES])
        raise UsageError(f"several ids begin so: {shown}; give more digits")
    return ids[0] if ids else None
