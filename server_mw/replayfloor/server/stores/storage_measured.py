"""What receipts take on disk, read from a database. The arithmetic is retention.storage.

Sizes are bytes as the database counts them: heap (with what is stored beside it, of long answers)
and indexes. Rows are counted exactly if that is asked for, which reads the table, else estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from replayfloor.core.errors import UsageError
from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance_postgres import connected


@dataclass(frozen=True, slots=True)
class Measured:
    """The receipts, or the proofs, of a database; all partitions together.

    Attributes:
        table: receipts or proofs.
        rows: live ones.
        dead_rows: versions that no one sees any more, and that vacuum has not removed yet.
        heap, indexes: bytes.
        empty: bytes of both that tables without any row take, such as partitions made ahead.
    """

    table: str
    rows: int
    dead_rows: int
    heap: int
    indexes: int
    empty: int = 0

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return self.heap + self.indexes

    @property
    def bytes_per_key(self) -> float | None:
        """Bytes a row, index included; None without rows."""
        return (self.total - self.empty) / self.rows if self.rows else None


def measure(url: str, *, exact: bool = False) -> list[Measured]:
    """Return the figures of a Postgres database: receipts, then proofs.

    Raises UsageError for another database, ConfigurationError, SchemaMissing, StoreUnavailable.
    """
    if url.startswith("sqlite:"):
        raise UsageError("a SQLite file is measured as a whole, with what else is in it: ls -l")
    with connected(url) as database:
        rows = database.execute(load("sql/postgres/storage.sql"), {"exact": exact}).fetchall()
    return [Measured(*cast("tuple[str, int, int, int, int, int]", row)) for row in rows]
