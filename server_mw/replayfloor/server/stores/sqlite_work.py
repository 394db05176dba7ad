"""What both colours of the SQLite receipts do on their one connection; it blocks.

The caller holds the turn (see sqlite.py), and runs it in a worker thread if it has an event loop.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, LiteralString, TypeAlias, TypeVar, cast
from urllib.parse import unquote

from replayfloor.core.claims import (
    Abandon,
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Renew,
    Reuse,
)
from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.resources import load
from replayfloor.server.stores.protocols import Parameters, Row
from replayfloor.server.stores.sqlite_sweep import sweep_now_and_then

T = TypeVar("T")

Work: TypeAlias = Callable[[sqlite3.Connection], T]
"""What one operation does inside a transaction."""

FinishSteps: TypeAlias = Generator[tuple[LiteralString, Mapping[str, object]], Sequence[Row], bool]

OPERATION_S = 5.0
"""How long an operation waits for its turn and for other processes before the store counts as
unavailable; the same as for Postgres."""

ENTRIES_MAX: Final = 128
"""Operations of one transaction: enough to share the wait for the disk among all that a process
serves at a time, and few enough that other processes get the file within some milliseconds."""

ENDED = "the claim's transaction has ended; nothing can be written any more"

NOT_QUIET = "a statement of the handler was still running; it was rolled back with all others"

BUSY = "SQLite is busy in this process"


def take_claim(
    database: sqlite3.Connection, *, claim: Claim, now_ms: Callable[[], int]
) -> ClaimAnswer:
    """Claim a key; the whole runs under the write lock, so insert and look see one state."""
    now = now_ms()
    parameters: Mapping[str, object] = {
        "id": claim.id,
        "fingerprint": claim.fingerprint,
        "fence": claim.fence,
        "lease_ms": claim.lease_ms,
        "retention_ms": claim.retention_ms,
        "now_ms": now,
    }
    row = database.execute(load("sql/sqlite/claim_find.sql"), parameters).fetchone()
    if row is None:
        return _take_free(database, claim, parameters, now)
    fingerprint, fence, left_ms = cast("tuple[bytes, bytes, int]", row)
    if fence == claim.fence:
        return Claimed(reused=_is_proven(database, claim, parameters))
    if left_ms > 0:
        return InFlight(Fingerprint(fingerprint), left_ms)
    if not claim.takeover or fingerprint != claim.fingerprint:
        return Orphaned(Fingerprint(fingerprint), -left_ms)
    database.execute(load("sql/sqlite/claim_take_over.sql"), parameters)
    return Claimed(taken_over=True, reused=_is_proven(database, claim, parameters))


def _take_free(
    database: sqlite3.Connection, claim: Claim, parameters: Mapping[str, object], now_ms: int
) -> ClaimAnswer:
    """Claim a key that nobody holds, if its receipt, or the lack of one, allows it."""
    row = database.execute(load("sql/sqlite/receipt_find.sql"), parameters).fetchone()
    if row is None:
        reused = _is_proven(database, claim, parameters)
    else:
        fingerprint, response, finished_ms = cast("tuple[bytes, bytes, int]", row)
        left_ms = None
        if claim.retention_ms is not None:
            left_ms = finished_ms + claim.retention_ms - now_ms
        if left_ms is None or left_ms > 0:
            return Finished(decode_receipt(fingerprint, response), left_ms)
        reused = True
    if claim.reuse is Reuse.NEVER or (claim.reuse is Reuse.REFUSE and reused):
        return Expired()
    if row is not None:
        # Moved to the proofs: a key has one receipt at most, and stays known as used if this
        # execution comes to nothing.
        database.execute(load("sql/sqlite/receipt_delete.sql"), parameters)
        database.execute(load("sql/sqlite/proof_insert.sql"), parameters)
    database.execute(load("sql/sqlite/claim_insert.sql"), parameters)
    sweep_now_and_then(database, claim, now_ms)
    return Claimed(reused=reused)


def _is_proven(
    database: sqlite3.Connection, claim: Claim, parameters: Mapping[str, object]
) -> bool:
    if not claim.proofs:
        return False
    return database.execute(load("sql/sqlite/proof_find.sql"), parameters).fetchone() is not None


def finish_steps(finish: Finish, now_ms: Callable[[], int]) -> FinishSteps:
    """Yield the statements that end the claim and store the receipt, to be sent their rows.

    They belong into one transaction. Returns whether the claim was still the fence's.
    """
    claim = {"id": finish.id, "fence": finish.fence}
    ended = yield load("sql/sqlite/claim_end.sql"), claim
    if not ended:
        return False
    claimed_ms, retention_ms = cast("tuple[int, int | None]", tuple(ended[0]))
    now = now_ms()
    receipt: Mapping[str, object] = {
        "id": finish.id,
        "fingerprint": finish.receipt.fingerprint,
        "now_ms": now,
        "took_ms": max(0, now - claimed_ms),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
        "expires_ms": None if retention_ms is None else now + retention_ms,
    }
    yield load("sql/sqlite/receipt_insert.sql"), receipt
    return True


def carry_out(
    steps: FinishSteps, run: Callable[[LiteralString, Mapping[str, object]], Sequence[Row]]
) -> bool:
    """Run each statement, and return what the last one leads to."""
    try:
        statement, values = next(steps)
        while True:
            statement, values = steps.send(run(statement, values))
    except StopIteration as stop:
        return bool(stop.value)


def finish_claim(
    database: sqlite3.Connection, *, finish: Finish, now_ms: Callable[[], int]
) -> bool:
    """End the claim and store the receipt, inside whatever transaction is open."""
    cursor = database.cursor()
    cursor.row_factory = None  # a handler's connection may make rows of another kind
    run = partial(_all_rows, cursor)
    return carry_out(finish_steps(finish, now_ms), run)


def _all_rows(
    cursor: sqlite3.Cursor, statement: LiteralString, values: Mapping[str, object]
) -> Sequence[Row]:
    return cursor.execute(statement, values).fetchall()


def end_claim(database: sqlite3.Connection, *, abandon: Abandon) -> bool:
    """Free the key, inside whatever transaction is open."""
    parameters = {"id": abandon.id, "fence": abandon.fence}
    return bool(database.execute(load("sql/sqlite/claim_end.sql"), parameters).fetchall())


def renew_claim(database: sqlite3.Connection, *, renew: Renew, now_ms: Callable[[], int]) -> bool:
    """Begin the lease anew, inside whatever transaction is open."""
    parameters = {
        "id": renew.id,
        "fence": renew.fence,
        "lease_ms": renew.lease_ms,
        "now_ms": now_ms(),
    }
    return database.execute(load("sql/sqlite/claim_renew.sql"), parameters).rowcount == 1


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


def inside(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` in the open transaction, if it is still open.

    SQLite ends a transaction by itself on some errors (a full disk, "or rollback"). Whatever came
    after that would be committed statement by statement, without the receipt.
    """
    if not database.in_transaction:
        raise UsageError("SQLite has rolled the transaction back after an error; it is over")
    return work(database)


def finish_and_commit(
    database: sqlite3.Connection, *, finish: Finish, now_ms: Callable[[], int]
) -> bool:
    """Finish in the open transaction and commit it, if the claim is still the fence's."""
    finished = finish_claim(database, finish=finish, now_ms=now_ms)
    if finished:
        commit(database)
    return finished


def rows(database: sqlite3.Connection, *, query: str, params: Parameters | None) -> Sequence[Row]:
    """Run one statement of a handler and read all of its rows."""
    return database.execute(query, params or ()).fetchall()


class ReadRows:
    """Rows that were read already, for a cursor to hand out."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold the rows."""
        self._rows = deque(rows)

    def next(self) -> Row | None:
        """Return the next row, or None after the last."""
        return self._rows.popleft() if self._rows else None

    def rest(self) -> Sequence[Row]:
        """Return the rows that are left."""
        rest = list(self._rows)
        self._rows.clear()
        return rest


def path_of(url: str) -> Path:
    """Return the file of `sqlite:///relative`, `sqlite:////absolute`. Raises ConfigurationError."""
    rest = url.removeprefix("sqlite:///")
    if rest == url or not rest or "?" in rest or rest.startswith(":"):
        raise ConfigurationError(
            f"expected sqlite:///relative/path or sqlite:////absolute/path, got {url!r}"
        )
    return Path(unquote(rest))
