"""What the tests of partitions look at, and a clock of the database that they set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import psycopg

from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance import Keeping, Run
from replayfloor.server.stores.maintenance_postgres import maintain
from replayfloor.server.stores.migrate import migrate
from support.services import Services

START = datetime(2031, 3, 29, 12, 34, 56, 789012, tzinfo=UTC)
"""The evening before clocks change in most of Europe: a width is a number of seconds."""

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Bounds = tuple[datetime, datetime]


@dataclass(frozen=True)
class Database:
    """A migrated database."""

    url: str

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        """A connection that commits each statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection

    def run(self, query: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own."""
        with self.connected() as connection:
            cursor = connection.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def number(self, query: str, params: tuple[object, ...] = ()) -> int:
        """Return the one number that a query asks for."""
        ((value,),) = self.run(query, params)
        return int(str(value))

    def set_clock(self, moment: datetime) -> None:
        """Let `now_v1` return this moment from now on."""
        self.run("create table if not exists clock (at timestamptz not null)")
        self.run("delete from clock")
        self.run("insert into clock values (%s)", (moment,))
        self.run(
            "create or replace function replayfloor.now_v1() returns timestamptz language sql"
            " volatile as 'select at from public.clock'"
        )

    def bounds(self, parent: str = "receipts") -> list[Bounds]:
        """Return where the partitions begin and end, in their order."""
        rows = self.run("select starts_at, ends_at from replayfloor.partitions_v1(%s)", (parent,))
        return [_bounds(row) for row in rows]

    def insert(self, *moments: datetime) -> list[UUID]:
        """Store a receipt for each moment, finished then; return their ids."""
        ids = [uuid4() for _ in moments]
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.executemany(
                b"insert into replayfloor.receipts values (%s, gen_random_uuid(), %s, 1, 200, '')",
                list(zip(ids, moments, strict=True)),
            )
        return ids

    def fill(self, rows: int, moment: datetime, spread: timedelta = timedelta()) -> None:
        """Store so many receipts, finished from this moment on, evenly spread."""
        self.run(
            "insert into replayfloor.receipts"
            " select gen_random_uuid(), gen_random_uuid(), %s + i * %s::interval / %s, 1, 200, ''"
            " from generate_series(0, %s - 1) as i",
            (moment, spread, rows, rows),
        )

    def ids(self, table: str = "receipts") -> set[UUID]:
        """Return the ids in a table."""
        return {UUID(str(id_)) for (id_,) in self.run(f"select id from replayfloor.{table}")}

    def count(self, table: str = "receipts") -> int:
        """Return how many rows a table has."""
        return self.number(f"select count(*) from replayfloor.{table}")

    def maintain(self, keeping: Keeping, *, accept_shorter: bool = False) -> Run:
        """Run the maintenance once."""
        return maintain(self.url, keeping, by="test", accept_shorter=accept_shorter)


COPY = "partitions_copy"
"""The name of the database of one test."""


def at_start(services: Services, name: str, keeping: Keeping) -> str:
    """Make a database with its clock at START, and partitions from then on; return its name."""
    database = Database(services.postgres.database(name))
    migrate(database.url, layout="plain", keeping=keeping)
    # By way of the plain layout, as what a migration makes lies years before START.
    database.set_clock(START)
    database.run("drop table replayfloor.receipts")
    database.run("-- " + load("sql/postgres/0001_tables.sql").partition("-- Wide columns")[2])
    for table in ("receipts", "proofs"):
        for (part,) in database.run("select name from replayfloor.partitions_v1(%s)", (table,)):
            database.run(f'drop table replayfloor."{part}"')
    database.maintain(keeping)
    return name


def copied(services: Services, template: str) -> Database:
    """Copy such a database."""
    return Database(services.postgres.database(COPY, template=template))


def _bounds(row: tuple[object, ...]) -> Bounds:
    start, end = row
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    return start, end


def assert_no_gap(bounds: list[Bounds]) -> None:
    """Say that each partition begins where the one before it ends."""
    assert bounds
    assert [b[0] for _, b in pairwise(bounds)] == [a[1] for a, _ in pairwise(bounds)]
    assert all(start < end for start, end in bounds)


def reaches_s(bounds: list[Bounds], present: datetime) -> float:
    """Return for how many seconds from the present there are partitions."""
    assert bounds[0][0] <= present
    return (bounds[-1][1] - present).total_seconds()
