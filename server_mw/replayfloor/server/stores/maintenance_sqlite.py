"""The maintenance of receipts in a SQLite file: small transactions, with pauses for other writers.

The claims sweep too (sqlite_sweep.py). This is for a file that nobody writes to any more, for one
that has grown before, and for the proofs, whose retention no claim knows.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance import Keeping, Outcome, Part, Run, Status, Step
from replayfloor.server.stores.sqlite_file import connect
from replayfloor.server.stores.sqlite_sweep import sweep, sweep_proofs
from replayfloor.server.stores.sqlite_work import committed

BATCH: Final = 100
"""Receipts a transaction: a few ms, as long as the one writer of the file is held up."""

PAUSE_S: Final = 0.01
"""Between two transactions, so that who waits for the file gets it."""

OPERATION_S: Final = 5.0


def maintain(
    path: Path, keeping: Keeping, *, by: str, clock: Callable[[], float] = time.time
) -> Run:
    """Delete every expired receipt and proof, in batches. Raises StoreUnavailable."""
    began, now_ms = time.monotonic(), int(clock() * 1000)
    receipts_before = now_ms - keeping.retention_ms
    removed = proofs = 0
    with _opened(path) as database:
        work = partial(
            sweep,
            before_ms=receipts_before,
            now_ms=now_ms,
            limit=BATCH,
            proofs=keeping.audit_ms is not None,
        )
        removed = _all(database, work)
        proofs = 0 if keeping.audit_ms is None else removed
        kept_ms = keeping.audit_ms or keeping.retention_ms
        _all(database, partial(sweep_proofs, before_ms=now_ms - kept_ms, limit=BATCH))
    ran_at = _time(now_ms)
    took_s = time.monotonic() - began
    return Run(
        Outcome.DONE, ran_at, took_s, removed=removed, proofs=proofs, by=by, succeeded_at=ran_at
    )


def _all(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], int]) -> int:
    total = 0
    while True:
        gone = committed(work, database)
        total += gone
        if gone < BATCH:
            return total
        time.sleep(PAUSE_S)


def planned(path: Path, keeping: Keeping, *, clock: Callable[[], float] = time.time) -> list[Step]:
    """Return what `maintain` would delete. Raises StoreUnavailable."""
    now = status(path, clock=clock)
    before = _time(int(clock() * 1000) - keeping.retention_ms)
    return [
        Step("delete", part.table, part.starts_at, before)
        for part in now.parts
        if part.table == "receipts" and part.starts_at is not None and part.starts_at <= before
    ]


def status(path: Path, *, clock: Callable[[], float] = time.time) -> Status:
    """Return what there is; nothing is known of runs. Raises StoreUnavailable."""
    with _opened(path) as database:
        rows = database.execute(load("sql/sqlite/maintain_status.sql")).fetchall()
        pages = int(database.execute("pragma page_count").fetchone()[0])
        page = int(database.execute("pragma page_size").fetchone()[0])
    parts = [
        Part(
            table,
            f"replayfloor_{table}",
            None if oldest_ms is None else _time(oldest_ms),
            None,
            count,
            # SQLite counts the file only, which is also the application's.
            pages * page if table == "receipts" else 0,
        )
        for table, count, oldest_ms in rows
    ]
    return Status("plain", _time(int(clock() * 1000)), tuple(parts), None, None)


@contextmanager
def _opened(path: Path) -> Generator[sqlite3.Connection]:
    """Open a file that is there: a mistyped name must not look like nothing to do."""
    if not path.exists():
        raise StoreUnavailable(f"SQLite {path}: there is no such file", performed=False)
    try:
        with closing(connect(path, OPERATION_S)) as database:
            yield database
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"SQLite {path}: {error}", performed=False) from error


def _time(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, UTC)
