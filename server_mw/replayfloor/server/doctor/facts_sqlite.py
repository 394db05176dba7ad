"""What was read of a SQLite file of receipts, and of the disk that it lies on. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from replayfloor.server.stores.policies import NotedPolicy


@dataclass(frozen=True, slots=True)
class SqliteFacts:
    """Everything that was read. Sizes are bytes, times are seconds.

    Attributes:
        path: of the file.
        failed: why it could not be read; "" if it could.
        missing: there is no such file.
        filesystem: the type that it lies on, such as "ext4"; "" if nobody can tell.
        free, disk: of that disk.
        size: of the file. `wal` is what waits beside it.
        journal: its mode of journaling.
        pages, empty_pages: of the file.
        version: of its schema; None: it has none of ours.
        claims, orphans, oldest_orphan_s: keys in flight.
        retention_s: by which they count as expired; 0: nobody has said one.
        noted: policies that were declared.
        receipts, expired, oldest_receipt_s: finished ones; expired: past the retention.
    """

    path: str
    failed: str = ""
    missing: bool = False
    filesystem: str = ""
    free: int | None = None
    disk: int | None = None
    size: int = 0
    wal: int = 0
    journal: str = ""
    pages: int = 0
    empty_pages: int = 0
    version: int | None = None
    claims: int = 0
    orphans: int = 0
    oldest_orphan_s: float = 0.0
    retention_s: float = 0.0
    receipts: int = 0
    expired: int = 0
    oldest_receipt_s: float | None = None
    noted: tuple[NotedPolicy, ...] = ()
