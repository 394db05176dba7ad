"""Creates and extends the Postgres schema. The only place that runs DDL; never at request time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import psycopg

from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.server.resources import load, migrations
from replayfloor.server.stores.maintenance import Keeping, Layout
from replayfloor.server.stores.postgres_options import conninfo_of
from replayfloor.server.stores.postgres_schema import (
    SchemaState,
    lacks,
    never_migrated,
    schema_state,
)
from replayfloor.server.stores.protocols import Row

PARTITION_WIDTH = timedelta(days=7)
"""Width of a partition of receipts where no retention is given. Every claim looks into each
partition that can hold its key, so few and wide is fast: measured, 7 partitions cost a third of the
throughput, 37 four fifths."""

PARTITIONS_AHEAD = timedelta(days=26 * 7)
"""How far ahead partitions are made where no retention is given, and so nothing that makes them
runs: empty ones are skipped by every look, and half a year is longer than any deployment should go
without running `replayfloor migrate`."""

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


def migrate(
    url: str,
    *,
    keeping: Keeping | None = None,
    layout: Layout | None = None,
    accept_shorter: bool = False,
) -> Migrated:
    """Bring the schema `replayfloor` of a Postgres database to this version; safe to repeat.

    One transaction: afterwards everything is there, or nothing has changed.

    Args:
        url: `postgresql://…` or any libpq connection string.
        keeping: how long receipts are kept; partitions are as wide as that wants them. Default:
            what the database was told before, or a week for each partition.
        layout: of the receipts. Default: what is there, or partitions.
        accept_shorter: also if receipts were kept for longer until now.

    Raises ConfigurationError for a URL that is none, and for a layout or a retention that the
    database cannot be given; StoreUnavailable if it does not answer. Errors of the database pass
    through.
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
        _lay_out(connection, layout)
        if keeping is not None:
            _keep(connection, keeping, accept_shorter=accept_shorter)
        made = _make_partitions(connection)
    return Migrated(tuple(missing), made)


def _lay_out(connection: psycopg.Connection[Row], layout: Layout | None) -> None:
    """Make the receipts one table if that is wanted, and there are none yet."""
    row = connection.execute("select replayfloor.is_partitioned_v1()").fetchone()
    partitioned = row == (True,)
    if layout == "partitioned" and not partitioned:
        raise ConfigurationError(
            "receipts are one table here; to partition it: replayfloor partitions convert"
        )
    if layout == "plain" and partitioned:
        try:
            connection.execute("select replayfloor.make_plain_v1()")
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise ConfigurationError(
                "receipts are partitioned here, and hold rows: they cannot become one table"
            ) from error


def _keep(connection: psycopg.Connection[Row], keeping: Keeping, *, accept_shorter: bool) -> None:
    try:
        connection.execute(
            "select replayfloor.keep_v1(%s, %s, %s, %s)",
            (keeping.retention_ms, keeping.width_ms, keeping.audit_ms, accept_shorter),
        )
    except psycopg.errors.InvalidParameterValue as error:
        hint = error.diag.message_hint
        raise ConfigurationError(f"{error.diag.message_primary}. {hint}") from error
    connection.execute("select replayfloor.redraw_partitions_v1(%s)", (keeping.width_ms,))


def _make_partitions(connection: psycopg.Connection[Row]) -> int:
    """Make the partitions that lack, as wide as the database knows that they should be."""
    row = connection.execute(
        "select retention_ms, replayfloor.is_partitioned_v1() from replayfloor.maintenance"
    ).fetchone()
    assert row is not None  # the migration has put it there
    retention_ms, partitioned = cast("tuple[int | None, bool]", row)
    width, ahead = PARTITION_WIDTH, PARTITIONS_AHEAD
    if retention_ms is not None:
        keeping = Keeping(retention_ms / 1000)
        width, ahead = (timedelta(seconds=each) for each in (keeping.width_s, keeping.ahead_s))
    connection.execute(
        "select replayfloor.ensure_proofs_v2("
        "    replayfloor.now_v1(), replayfloor.now_v1() + %s::interval)",
        (PARTITIONS_AHEAD,),
    )
    if not partitioned:
        return 0
    made = connection.execute(
        "select replayfloor.ensure_partitions_v2("
        "    %s::bigint, replayfloor.now_v1() + %s::interval)",
        (width // timedelta(milliseconds=1), ahead),
    ).fetchone()
    assert made is not None  # a function returns a row
    return cast("int", made[0])


def check(url: str) -> Checked:
    """Say what is to be done about the schema of a Postgres database; changes nothing.

    Raises as `migrate` does.
    """
    with _connected(url) as connection:
        connection.read_only = True
        state = _state(connection)
        version = connection.info.server_version // 10_000
    lacking = list(lacks(state))
    if state.covered is not None and state.ends_soon:
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
