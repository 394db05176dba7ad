"""What the row of state.sql means: what the database lacks, and for how long it will do. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from replayfloor.core.errors import SchemaMissing
from replayfloor.server.resources import migrations
from replayfloor.server.stores.protocols import Row

PARTITION_DAYS_LOW = 28
"""Below this the start-up log asks for a migration: four weeks are time to plan one."""

PARTITIONS_LOW = 3
"""Nor is it asked for before so few widths are left: where partitions are narrow, they are made
ahead by a maintenance that runs all the time, and never reach that far."""

FOR_EVER = timedelta.max
"""For how long a table without partitions has a place for a receipt."""

UNIQUE_INDEX_GONE = (
    "the unique index replayfloor.claims_id is gone, and nothing else refuses a second "
    "claim; restore it: create unique index claims_id on replayfloor.claims (id)"
)

CHECK_VIOLATION, SCHEMA = "23514", "replayfloor"

OUTSIDE = (
    "receipts have no partition for this moment, so that nothing can be finished; run: replayfloor "
    "partitions maintain, and find out why it did not run"
)

log = logging.getLogger("replayfloor.server")


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database, compared with what this release needs.

    Attributes:
        missing: migrations that were not applied, in their order.
        covered: how long from now receipts meet a partition without a gap; None if not even now;
            FOR_EVER where there are no partitions.
        unique: whether the index stands that refuses a second claim.
        width: of the partition of this moment; None if there is none.
    """

    missing: tuple[str, ...]
    covered: timedelta | None
    unique: bool
    width: timedelta | None = None

    @property
    def days_left(self) -> int:
        """Whole days for which receipts have partitions; 0 if there is none for today."""
        return 0 if self.covered is None else self.covered // timedelta(days=1)

    @property
    def ends_soon(self) -> bool:
        """Whether partitions have to be made before long, or be wondered about."""
        low = timedelta(days=PARTITION_DAYS_LOW)
        if self.width is not None:
            low = min(low, PARTITIONS_LOW * self.width)
        return self.covered is None or self.covered < low


def never_migrated() -> SchemaState:
    """Return the state of a database that state.sql fails on, as it has none of its tables."""
    return SchemaState(missing=migrations(), covered=None, unique=False)


def schema_state(row: Row) -> SchemaState:
    """Return what the row of state.sql says."""
    applied, covered, unique, plain, width = cast(
        "tuple[list[str], timedelta | None, bool, bool, timedelta | None]", row
    )
    missing = tuple(name for name in migrations() if name not in applied)
    return SchemaState(missing, FOR_EVER if plain else covered, unique, width)


def lacks(state: SchemaState) -> Iterator[str]:
    """Say what keeps a store from working with this schema; nothing, if nothing does."""
    if state == never_migrated():
        yield "the database has no replayfloor schema"
        return
    if state.missing:
        yield f"not applied yet: {', '.join(state.missing)}"
    if not state.unique:
        yield UNIQUE_INDEX_GONE
    if state.covered is None:
        yield "receipts have no partition for today"


def require(state: SchemaState, advice: str) -> None:
    """Raise SchemaMissing if a store cannot work with this schema; warn if it soon could not.

    `advice` is the command that helps.
    """
    lacking = tuple(lacks(state))
    if lacking == (UNIQUE_INDEX_GONE,):  # which a migration does not restore
        raise SchemaMissing(UNIQUE_INDEX_GONE)
    if lacking:
        raise SchemaMissing(f"{'; '.join(lacking)}; {advice}")
    if state.ends_soon:
        log.warning("partitions of receipts end in %d days; %s", state.days_left, advice)


def is_outside(sqlstate: str | None, schema: str | None, constraint: str | None) -> bool:
    """Say whether an error of Postgres is that a receipt met no partition.

    It has the state of a check that failed, and unlike one it names no constraint.
    """
    return sqlstate == CHECK_VIOLATION and schema == SCHEMA and constraint is None
