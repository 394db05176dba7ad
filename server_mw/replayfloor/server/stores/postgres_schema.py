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

UNIQUE_INDEX_GONE = (
    "the unique index replayfloor.claims_id is gone, and nothing else refuses a second "
    "claim; restore it: create unique index claims_id on replayfloor.claims (id)"
)

log = logging.getLogger("replayfloor.server")


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database, compared with what this release needs.

    Attributes:
        missing: migrations that were not applied, in their order.
        covered: how long from now receipts meet a partition without a gap; None if not even now.
        unique: whether the index stands that refuses a second claim.
    """

    missing: tuple[str, ...]
    covered: timedelta | None
    unique: bool

    @property
    def days_left(self) -> int:
        """Whole days for which receipts have partitions; 0 if there is none for today."""
        return 0 if self.covered is None else self.covered // timedelta(days=1)


def never_migrated() -> SchemaState:
    """Return the state of a database that state.sql fails on, as it has none of its tables."""
    return SchemaState(missing=migrations(), covered=None, unique=False)


def schema_state(row: Row) -> SchemaState:
    """Return what the row of state.sql says."""
    applied, covered, unique = cast("tuple[list[str], timedelta | None, bool]", row)
    missing = tuple(name for name in migrations() if name not in applied)
    return SchemaState(missing, covered, unique)


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
    if state.days_left < PARTITION_DAYS_LOW:
        log.warning("partitions of receipts end in %d days; %s", state.days_left, advice)
