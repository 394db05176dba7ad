"""The blocking half of the SQLite receipts: statements on one connection, decided by no event loop.

Everything here runs in a worker thread, and the caller holds the turn (see sqlite.py).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import unquote

from replayfloor.core.claims import (
    Claim,
    ClaimAnswer,
    Claimed,
    Finish,
    Finished,
    InFlight,
    Orphaned,
)
from replayfloor.core.errors import ConfigurationError, SchemaMissing
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load
from replayfloor.server.stores import Parameters, Row

T = TypeVar("T")

SCHEMA_VERSION = 1

WAL_TRIES = 50
"""Switching a new file to WAL fails at once while another process does the same."""

WAL_PAUSE_S = 0.02


def connect(path: Path, busy_s: float) -> sqlite3.Connection:
    """Open or create the file, durable, with its schema; `busy_s` is for other processes."""
    database = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        # FULL: a receipt that was answered from survives a power cut.
        database.execute("pragma synchronous = full")
        _enter_wal(database)
        _create_schema(database)
    except BaseException:
        database.close()
        raise
    return database


def _enter_wal(database: sqlite3.Connection) -> None:
    """The busy timeout does not apply to this pragma: with several starters it fails at once."""
    for _try in range(WAL_TRIES):
        with suppress(sqlite3.OperationalError):
            if database.execute("pragma journal_mode = wal").fetchone() == ("wal",):
                return
        time.sleep(WAL_PAUSE_S)
    raise sqlite3.OperationalError("cannot use write-ahead logging; is the file on a local disk?")


def _create_schema(database: sqlite3.Connection) -> None:
    begin(database)
    try:
        if database.execute(load("sql/sqlite/schema_version.sql")).fetchone() is None:
            for statement in load("sql/sqlite/schema.sql").split(";"):
                database.execute(statement)
        row = database.execute("select version from replayfloor_schema").fetchone()
        if row != (SCHEMA_VERSION,):
            raise SchemaMissing(
                f"the file's schema is version {row}, this release needs {SCHEMA_VERSION}"
            )
        commit(database)
    finally:
        database.rollback()


def take_claim(
    database: sqlite3.Connection, *, claim: Claim, now_ms: Callable[[], int]
) -> ClaimAnswer:
    """Claim a key; the whole runs under the write lock, so insert and look see one state."""
    parameters: Mapping[str, object] = {
        "id": claim.id,
        "fingerprint": claim.fingerprint,
        "fence": claim.fence,
        "lease_ms": claim.lease_ms,
        "now_ms": now_ms(),
    }
    found = database.execute(load("sql/sqlite/receipt_find.sql"), parameters).fetchone()
    if found is not None:
        return Finished(decode_receipt(*found))
    if database.execute(load("sql/sqlite/claim_insert.sql"), parameters).rowcount == 1:
        return Claimed()
    row = database.execute(load("sql/sqlite/claim_find.sql"), parameters).fetchone()
    fingerprint, fence, left_ms = cast("tuple[bytes, bytes, int]", row)
    if fence == claim.fence:
        return Claimed()
    if left_ms > 0:
        return InFlight(Fingerprint(fingerprint), left_ms)
    if not claim.takeover or fingerprint != claim.fingerprint:
        return Orphaned(Fingerprint(fingerprint), -left_ms)
    database.execute(load("sql/sqlite/claim_take_over.sql"), parameters)
    return Claimed(taken_over=True)


def finish_claim(
    database: sqlite3.Connection, *, finish: Finish, now_ms: Callable[[], int]
) -> bool:
    """End the claim and store the receipt, inside whatever transaction is open."""
    parameters: dict[str, object] = {"id": finish.id, "fence": finish.fence}
    ended = database.execute(load("sql/sqlite/claim_end.sql"), parameters).fetchall()
    if not ended:
        return False
    now = now_ms()
    parameters |= {
        "fingerprint": finish.receipt.fingerprint,
        "now_ms": now,
        "took_ms": max(0, now - int(ended[0][0])),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
    }
    database.execute(load("sql/sqlite/receipt_insert.sql"), parameters)
    return True


def committed(work: Callable[[sqlite3.Connection], T], database: sqlite3.Connection) -> T:
    """Run `work` in a transaction of its own; rolled back if it raises."""
    begin(database)
    try:
        result = work(database)
        commit(database)
    except BaseException:
        database.rollback()
        raise
    return result


def begin(database: sqlite3.Connection) -> None:
    """Begin a transaction that may write; waits for other processes."""
    database.execute("begin immediate")


def commit(database: sqlite3.Connection) -> None:
    """Commit the open transaction, durably."""
    database.execute("commit")


def rows(database: sqlite3.Connection, *, query: str, params: Parameters | None) -> Sequence[Row]:
    """Run one statement of a handler and read all of its rows."""
    return database.execute(query, params or ()).fetchall()


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute`. Raises ConfigurationError."""
    rest = url.removeprefix("sqlite:///")
    if rest == url or not rest or "?" in rest or rest.startswith(":"):
        raise ConfigurationError(
            f"expected sqlite:///relative/path or sqlite:////absolute/path, got {url!r}"
        )
    return Path(unquote(rest))
