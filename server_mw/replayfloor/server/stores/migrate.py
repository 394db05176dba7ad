"""Creates and extends the Postgres schema. The only place that runs DDL; never at request time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import psycopg

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.resources import load, migrations

PARTITION_WIDTH = timedelta(days=7)
"""Width of a partition of receipts. Every claim looks into each partition that can hold its key,
so few and wide is fast: measured, 7 partitions cost a third of the throughput, 37 four fifths."""

PARTITIONS_AHEAD = timedelta(days=26 * 7)
"""How far ahead partitions are made: empty ones are skipped by every look, and half a year is
longer than any deployment should go without running `replayfloor migrate`."""

ADVISORY_LOCK = 0x7265706C6179
"""Held while migrating, so that two deployments that start at once do it one after the other."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a run changed: names of the migrations it applied, and partitions it made."""

    applied: tuple[str, ...]
    partitions: int


def migrate(url: str) -> Migrated:
    """Bring the schema `replayfloor` of a Postgres database to this version; safe to repeat.

    One transaction: afterwards everything is there, or nothing has changed. Raises
    StoreUnavailable if the database does not answer; errors of the database pass through.
    """
    try:
        connection = psycopg.connect(url, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error
    with connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
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
    return Migrated(tuple(missing), int(made[0]) if made else 0)
