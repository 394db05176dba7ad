"""Creates and extends the Postgres schema. The only place that runs DDL; never at request time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import psycopg

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.resources import load, migrations
from replayfloor.server.stores.postgres_options import conninfo_of
from replayfloor.server.stores.postgres_schema import (
    PARTITION_DAYS_LOW,
    SchemaState,
    lacks,
    never_migrated,
    schema_state,
)
from replayfloor.server.stores.protocols import Row

PARTITION_WIDTH = timedelta(days=7)
"""Width of a partition of receipts. Every claim looks into each partition that can hold its key,
so few and wide is fast: measured, 7 partitions cost a third of the throughput, 37 four fifths."""

PARTITIONS_AHEAD = timedelta(days=26 * 7)
"""How far ahead partitions are made: empty ones are skipped by every look, and half a year is
longer than any deployment should go without running `replayfloor migrate`."""

ADVISORY_LOCK = 0x7265706C6179
"""Held while migrating, so that two deployments that start at once do it one after the other."""

CONNECT_S = 10
"""How long a connection is waited for: a person or a deployment waits, not a request."""

LOCK_MS = 2000
"""How long a migration waits for a lock that requests hold. Requests queue behind one that waits,
so this is for how long they may be held up; after it, nothing was changed, and one tries again."""

VERSIONS_TESTED = range(15, 19)
"""Major versions of Postgres that the tests run on."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a run changed: names of the migrations it applied, and partitions it made."""

    applied: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What `replayfloor migrate` has to do, or the operator; one sentence each.

    Attributes:
        lacking: what has to be done, or will have to be soon.
        warnings: what is worth knowing all the same.
    """

    lacking: tuple[str, ...]
    warnings: tuple[str, ...]


def migrate(url: str) -> Migrated:
    """Bring the schema `replayfloor` of a Postgres database to this version; safe to repeat.

    One transaction: afterwards everything is there, or nothing has changed. Raises
    ConfigurationError for a URL that is none, StoreUnavailable if the database does not answer;
    errors of the database pass through.
    """
    with _connected(url) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
        connection.execute("select set_config('lock_timeout', %s, true)", (f"{LOCK_MS}ms",))
        connection.execute(load("sql/postgres/bootstrap.sql"))
        rows = connection.execute("select name from replayfloor.migrations").fetchall()
        missing = [name for name in migrations() if (name,) not in rows]
        for name in missing:
            connection.execute(load(f"sql/postgres/{name}"))
            connection.execute("insert into replayfloor.migrations (name) values (%s)", (name,))
        made = connection.execute(
            "select replayfloor.ensure_partitions_v1(now() - %s, now() + %s, %s)",
            (PARTITION_WIDTH, PARTITIONS_AHEAD, PARTITION_WIDTH),
        ).fetchone()
        connection.execute(
            "select replayfloor.ensure_proofs_v1(now(), now() + %s)", (PARTITIONS_AHEAD,)
        )
    assert made is not None  # a function returns a row
    return Migrated(tuple(missing), cast("int", made[0]))


def check(url: str) -> Checked:
    """Say what is to be done about the schema of a Postgres database; changes nothing.

    Raises as `migrate` does.
    """
    with _connected(url) as connection:
        connection.read_only = True
        state = _state(connection)
        version = connection.info.server_version // 10_000
    lacking = list(lacks(state))
    if state.covered is not None and state.days_left < PARTITION_DAYS_LOW:
        lacking.append(f"partitions of receipts end in {state.days_left} days")
    warnings: list[str] = []
    if version not in VERSIONS_TESTED:
        first, last = VERSIONS_TESTED[0], VERSIONS_TESTED[-1]
        warnings.append(f"Postgres {version} is not among the versions tested, {first} to {last}")
    return Checked(tuple(lacking), tuple(warnings))


def _state(connection: psycopg.Connection[Row]) -> SchemaState:
    try:
        row = connection.execute(load("sql/postgres/state.sql")).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        connection.rollback()
        return never_migrated()
    assert row is not None  # state.sql returns one
    return schema_state(row)


@contextmanager
def _connected(url: str) -> Generator[psycopg.Connection[Row]]:
    """Give a transaction that is committed at the end."""
    conninfo = conninfo_of(url)
    try:
        connection = psycopg.connect(conninfo, connect_timeout=CONNECT_S)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error
    with connection:
        yield connection
