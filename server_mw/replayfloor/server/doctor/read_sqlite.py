"""Reads a SQLite file of receipts, and makes none: neither the file, nor others beside it."""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from replayfloor.server.doctor.facts_sqlite import SqliteFacts
from replayfloor.server.resources import load
from replayfloor.server.stores.policies_sqlite import read_policies

BUSY_S: Final = 2.0

MOUNTS: Final = Path("/proc/self/mountinfo")

HEADER_BYTES: Final = 100
WRITE_VERSION: Final = 18
WRITES_WAL: Final = b"\x02"
"""Of the file's header: how it is written."""

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def read_sqlite(
    path: Path,
    *,
    retention_s: float | None = None,
    clock: Callable[[], float] = time.time,
    mounts: str | None = None,
) -> SqliteFacts:
    """Return what there is.

    Args:
        path: of the file.
        retention_s: receipts that finished longer ago count as expired.
        clock: seconds since 1970.
        mounts: what the kernel says is mounted, as /proc/self/mountinfo; default: it is asked.
    """
    facts = SqliteFacts(str(path))
    try:
        if not path.exists():
            return replace(facts, missing=True)
        real = path.resolve()
        disk = shutil.disk_usage(real.parent)
        facts = replace(
            facts,
            filesystem=filesystem_of(real, _mounts() if mounts is None else mounts),
            free=disk.free,
            disk=disk.total,
            size=real.stat().st_size,
            wal=_size_of(_wal(real)),
        )
        with closing(_opened(real)) as database:
            return _read(database, facts, retention_s, clock())
    except (sqlite3.Error, OSError) as error:
        return replace(facts, failed=str(error))


def _opened(path: Path) -> sqlite3.Connection:
    # A reader of a file in WAL mode makes the files beside it if they are not there. If they are
    # not, nobody has it open, and what is in the file is all there is: immutable makes none.
    mode = "mode=ro" if _wal(path).exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=BUSY_S)


def _read(
    database: sqlite3.Connection, facts: SqliteFacts, retention_s: float | None, now_s: float
) -> SqliteFacts:
    facts = replace(
        facts,
        journal=_journal(database, Path(facts.path)),
        pages=int(str(_one(database, "pragma page_count"))),
        empty_pages=int(str(_one(database, "pragma freelist_count"))),
    )
    if database.execute(load("sql/sqlite/schema_version.sql")).fetchone() is None:
        return facts
    now_ms = int(now_s * 1000)
    before_ms = -1 if retention_s is None else now_ms - round(retention_s * 1000)
    claims, orphans, ended_ms = database.execute(
        load("doctor/sql/sqlite_claims.sql"), {"now_ms": now_ms}
    ).fetchone()
    receipts, expired, first_ms = database.execute(
        load("doctor/sql/sqlite_receipts.sql"), {"before_ms": before_ms}
    ).fetchone()
    return replace(
        facts,
        version=int(str(_one(database, "select version from replayfloor_schema"))),
        claims=claims,
        orphans=orphans,
        oldest_orphan_s=max(0.0, (now_ms - ended_ms) / 1000) if orphans else 0.0,
        retention_s=retention_s or 0.0,
        noted=tuple(read_policies(database)),
        receipts=receipts,
        expired=expired,
        oldest_receipt_s=None if first_ms is None else (now_ms - first_ms) / 1000,
    )


def _journal(database: sqlite3.Connection, path: Path) -> str:
    # An immutable file says nothing of it; its header does.
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if header[WRITE_VERSION : WRITE_VERSION + 1] == WRITES_WAL:
        return "wal"
    return str(_one(database, "pragma journal_mode"))


def _one(database: sqlite3.Connection, query: str) -> object:
    row: tuple[object, ...] | None = database.execute(query).fetchone()
    return None if row is None else row[0]


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def filesystem_of(path: Path, mounts: str) -> str:
    """Return the type of file system that an absolute path lies on; "" if it is not listed.

    `mounts` is as in /proc/self/mountinfo: what is mounted over another comes after it.
    """
    found, longest = "", -1
    for line in mounts.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split()
        if not dash or len(fields) < 5 or not right.split():
            continue
        mounted = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        depth = len(mounted.parts)
        if depth >= longest and (path == mounted or mounted in path.parents):
            found, longest = right.split()[0], depth
    return found
