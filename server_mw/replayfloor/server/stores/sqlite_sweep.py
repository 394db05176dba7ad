"""Deletes expired receipts from a SQLite file, a few at a time; inside whatever is open. It blocks.

There is no maintenance process beside an embedded database: the claims do it, now and then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from replayfloor.core.claims import Claim
from replayfloor.server.resources import load

ONE_IN: Final = 4
"""One claim in so many sweeps; which one, says a byte of its fence, which is random."""

ROWS: Final = 8
"""And so many receipts: twice as many as were added meanwhile, so that it catches up, and few
enough for a few ms also if each holds an answer of a MiB."""

LATER_MS: Final = 3_600_000
"""Nobody gains by an earlier deletion, and a retry that is late by little is refused as long as the
row of its receipt stands."""


def sweep_now_and_then(database: sqlite3.Connection, claim: Claim, now_ms: int) -> None:
    """Let a claim that was taken delete some receipts that expired an hour ago, in its commit.

    Each receipt says itself when it expires: the claim's retention is that of its namespace, and
    says nothing of the others in the file.
    """
    sweep_for(database, [claim], now_ms)


def sweep_for(database: sqlite3.Connection, claims: Sequence[Claim], now_ms: int) -> None:
    """Do the same for several claims, in as many statements as for one."""
    sweeping = [claim for claim in claims if _sweeps(claim)]
    for proofs in (False, True):
        limit = ROWS * sum(claim.proofs is proofs for claim in sweeping)
        if limit:
            values = {"before_ms": now_ms - LATER_MS, "limit": limit}
            if proofs:
                database.execute(load("sql/sqlite/sweep_expired_proofs.sql"), values)
            database.execute(load("sql/sqlite/sweep_expired.sql"), values)


def _sweeps(claim: Claim) -> bool:
    return claim.retention_ms is not None and claim.fence[0] % ONE_IN == 0


def sweep(
    database: sqlite3.Connection, before_ms: int, now_ms: int, limit: int, *, proofs: bool
) -> int:
    """Delete up to `limit` receipts finished by a moment that have expired; return how many.

    With `proofs`, they stay known as used.
    """
    values = {"before_ms": before_ms, "now_ms": now_ms, "limit": limit}
    if proofs:
        database.execute(load("sql/sqlite/sweep_proofs.sql"), values)
    return database.execute(load("sql/sqlite/sweep.sql"), values).rowcount


def sweep_proofs(database: sqlite3.Connection, before_ms: int, limit: int) -> int:
    """Delete up to `limit` proofs of what was used by a moment; return how many."""
    values = {"before_ms": before_ms, "limit": limit}
    return database.execute(load("sql/sqlite/sweep_old_proofs.sql"), values).rowcount
