"""What the tests of the adapters share, whichever the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from replayfloor.core.problem import ProblemKind
from server.backends import Ledger, sqlite_url
from server.wire import Request

FRESH = (201, None, False)
REPLAY = (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)

OTHER = Request(key=b'"other"')

AT_ONCE = 16
"""Requests, each with a connection of its own."""

FAILS_AT_COMMIT = (
    "create temp table late (n int unique deferrable initially deferred) on commit drop",
    "insert into late values (1), (1)",
)
LOSES_ITS_CONNECTION_AT_COMMIT = (
    "create temp table last (n int) on commit drop",
    "create function pg_temp.gone() returns trigger language plpgsql as"
    " 'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'",
    "create constraint trigger gone after insert on last deferrable initially deferred"
    " for each row execute function pg_temp.gone()",
    "insert into last values (1)",
)
IN_A_TRANSACTION = (
    "select state, query from pg_stat_activity"
    " where datname = current_database() and state like 'idle in transaction%'"
)
"""Sessions on the server that hold a transaction open and do nothing."""


def ledger_of(kind: str, request: pytest.FixtureRequest) -> Ledger:
    """Return an empty ledger: in a file for "sqlite", and in Postgres otherwise."""
    if kind != "sqlite":
        return Ledger(request.getfixturevalue("emptied_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    ledger = Ledger(sqlite_url(folder / "receipts.db"))
    ledger.create()
    return ledger


def lose_claims(ledger: Ledger) -> None:
    """Give every claim to somebody else."""
    ledger.run(
        "update replayfloor_claims set fence = randomblob(16)"
        if ledger.url.startswith("sqlite")
        else "update replayfloor.claims set fence = gen_random_uuid()"
    )
