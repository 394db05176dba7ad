"""From when on a figure is worth a word. Numbers and their reasons; a test may choose others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of all checks.

    Attributes:
        redis_latency_note_s: a round trip to the database takes about as long, so that asking
            Redis first saves nothing.
        redis_latency_warning_s: a fifth of the time that the lock is waited for (0.5 s); a few of
            these in a row, and it counts as away.
        redis_memory_share: of `maxmemory`; beyond it there is little time left to act.
        redis_stale_percent: of keys that have expired and still take memory. The server lets up
            to a tenth, by default, wait for its next round.
        clock_note_s: clocks that are synchronised differ by milliseconds.
        clock_uncertain_s: a round trip that long leaves the difference of the clocks unknown.
        long_transaction_s: nothing of ours runs as long. A minute of it is an hour of dead rows.
        orphan_s: a retry of a client comes within minutes; after an hour nobody is on it.
        inbox_oldest_s: events are applied within seconds; one that has waited for an hour failed
            several times, or nobody applies them.
        claims_dead_rows: a thousand keys a second leave 60,000 dead rows from one round of
            autovacuum to the next, which is a minute.
        claims_bytes: those rows take some 10 MB; ten times that is a table that vacuum cannot
            shrink.
        slot_bytes: of log that a replication slot keeps for nobody; the log is recycled at 1 GB.
        growth: by which factor receipts may exceed the estimate: a week is not a flat line.
        growth_bytes: below it, pages that are half empty decide, and not the rate.
        maintenance_s: a run a day, and an hour for it to be late.
        connections_share: of the limit; beyond it a deployment that overlaps with its predecessor
            meets the limit.
        sqlite_free_share: of the disk.
        sqlite_wal_bytes: a write-ahead log is cut back at 4 MB; beyond 64 MB a reader keeps it.
        sqlite_empty_share: of the file's pages, that hold nothing.
        expired_rows_s: expired receipts are swept as claims arrive; a day late is not swept.
    """

    redis_latency_note_s: float = 0.005
    redis_latency_warning_s: float = 0.1
    redis_memory_share: float = 0.9
    redis_stale_percent: float = 15.0
    clock_note_s: float = 1.0
    clock_uncertain_s: float = 5.0
    long_transaction_s: float = 300.0
    orphan_s: float = 3600.0
    inbox_oldest_s: float = 3600.0
    claims_dead_rows: int = 600_000
    claims_bytes: int = 100_000_000
    slot_bytes: int = 1_000_000_000
    growth: float = 1.25
    growth_bytes: int = 10_000_000
    maintenance_s: float = 25 * 3600.0
    connections_share: float = 0.8
    sqlite_free_share: float = 0.05
    sqlite_wal_bytes: int = 64_000_000
    sqlite_empty_share: float = 0.5
    expired_rows_s: float = 86_400.0
