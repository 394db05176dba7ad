"""What a maintenance of the receipts is about, as values: what is kept, was done, and is to do.

No I/O, and no decision about rows: those are in sql/ (Postgres: `maintain_v1`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, format_duration
from replayfloor.retention.layout import partition_width_s
from replayfloor.server.options import RetentionOption
from replayfloor.server.retention import retention_of, seconds_of

DAY_S: Final = 86_400.0

AHEAD_S_MIN: Final = 7 * DAY_S
"""How far ahead partitions are made: whoever is told that the maintenance does not run any more has
a week, and not the night of a Saturday."""

AHEAD_WIDTHS_MIN: Final = 4
"""And not fewer than so many: more than what the start-up log asks for (`PARTITIONS_LOW`)."""

AHEAD_WIDTHS_MAX: Final = 24
"""And not more: each partition, even an empty one, costs a claim two locks before Postgres 18."""

OVERDUE_AFTER_S: Final = 25 * 3600.0
"""How long an expired partition may wait: a run a day, and an hour for it to be late."""

Layout: TypeAlias = Literal["partitioned", "plain"]


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long receipts are kept, in seconds, and for how long their keys stay known as used.

    `audit_s` counts from the same moment as `retention_s`, the end of the execution, and is longer.
    """

    retention_s: float
    audit_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ConfigurationError."""
        seconds_of("retention", self.retention_s)
        if self.audit_s is not None and self.audit_s <= self.retention_s:
            raise ConfigurationError(
                "the audit retention is how long a key is known as used, its receipt included: it "
                f"has to be longer than {format_duration(self.retention_s)}"
            )

    @property
    def width_s(self) -> float:
        """How wide a partition of receipts is."""
        return partition_width_s(self.retention_s)

    @property
    def ahead_s(self) -> float:
        """How far from the present partitions reach after a run."""
        wanted = max(AHEAD_S_MIN, AHEAD_WIDTHS_MIN * self.width_s)
        return min(wanted, AHEAD_WIDTHS_MAX * self.width_s)

    @property
    def retention_ms(self) -> int:
        """As the claims say it."""
        return round(self.retention_s * 1000)

    @property
    def width_ms(self) -> int:
        """As the statements want it."""
        return round(self.width_s * 1000)

    @property
    def ahead_ms(self) -> int:
        """As the statements want it."""
        return round(self.ahead_s * 1000)

    @property
    def audit_ms(self) -> int | None:
        """As the statements want it."""
        return None if self.audit_s is None else round(self.audit_s * 1000)


def keeping_of(
    retention: RetentionOption = None,
    policy: InboundPolicy | None = None,
    audit_retention: timedelta | float | None = None,
) -> Keeping:
    """Return what the middleware's three options of these names say. Raises ConfigurationError."""
    retention_s = retention_of(retention, policy)
    if retention_s is None:
        raise ConfigurationError(
            "without a retention receipts are kept for good, and there is nothing to maintain"
        )
    audit_s = None
    if audit_retention is not None:
        audit_s = seconds_of("audit_retention", audit_retention)
    return Keeping(retention_s, audit_s)


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    OVERDUE = "overdue"
    """Others hold locks on what should have been dropped; the next run tries again."""
    FAILED = "failed"
    RUNNING = "running"
    BUSY = "busy"
    """Another worker, or a migration, is at it; nothing was done here."""
    NOT_DUE = "not due"
    """Another worker did it a moment ago; nothing was done here."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the maintenance, or why there was none.

    Attributes:
        outcome: how it ended.
        ran_at: when it began, by the database's clock; None if never.
        took_s: how long it took, in seconds.
        made, dropped: partitions, of receipts and of proofs.
        removed: receipts that were deleted one by one, where there are no partitions.
        proofs: ids that were moved to the proofs.
        by: who did it.
        detail: what could not be done.
        succeeded_at: when the last run began that was done.
    """

    outcome: Outcome
    ran_at: datetime | None = None
    took_s: float = 0.0
    made: int = 0
    dropped: int = 0
    removed: int = 0
    proofs: int = 0
    by: str = ""
    detail: str = ""
    succeeded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a run would do: "make" or "drop" a partition, or "delete" rows of a time."""

    action: str
    table: str
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A partition, or a whole table that has none (whose bounds are None, or its oldest row's).

    `rows` is the database's estimate. `bounded` is False for one that takes what no other does,
    which should not exist.
    """

    table: str
    name: str
    starts_at: datetime | None
    ends_at: datetime | None
    rows: int
    size: int
    bounded: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """What there is. `keeping` is what the last run, or the migration, was told."""

    layout: Layout
    present: datetime
    parts: tuple[Part, ...]
    keeping: Keeping | None
    last: Run | None


def state_of(part: Part, present: datetime, kept_s: float | None) -> str:
    """Return ahead, current, live, expired or overdue; kept if nobody knows for how long."""
    if part.starts_at is None or part.ends_at is None:
        return "current" if part.bounded else "catch-all"
    if part.starts_at > present:
        return "ahead"
    if part.ends_at > present:
        return "current"
    if kept_s is None:
        return "kept"
    over_s = (present - part.ends_at).total_seconds() - kept_s
    if over_s < 0:
        return "live"
    return "overdue" if over_s > OVERDUE_AFTER_S else "expired"


def kept_s_of(table: str, keeping: Keeping | None) -> float | None:
    """Return for how long the rows of receipts or of proofs are kept."""
    if keeping is None:
        return None
    return keeping.retention_s if table == "receipts" else keeping.audit_s or keeping.retention_s


def troubles(status: Status, keeping: Keeping | None) -> tuple[str, ...]:
    """Say what should not be as it is, one sentence each."""
    found: list[str] = []
    receipts = [part for part in status.parts if part.table == "receipts"]
    for part in status.parts:
        kept_s = kept_s_of(part.table, keeping)
        state = state_of(part, status.present, kept_s)
        if state == "overdue":
            found.append(f"{part.name} should have been dropped: all of it has expired")
        elif state == "catch-all":
            found.append(f"{part.name} takes what has no partition, which would be an error")
        elif part.ends_at is None and part.starts_at is not None and kept_s is not None:
            old_s = (status.present - part.starts_at).total_seconds()
            if old_s > kept_s + OVERDUE_AFTER_S:
                found.append(f"{part.name} has rows that should have been deleted")
    if status.layout == "partitioned":
        found += _gaps(receipts, status.present)
    if status.last is not None and status.last.outcome is Outcome.FAILED:
        found.append(f"the last run failed: {status.last.detail}")
    return tuple(found)


def _gaps(parts: list[Part], present: datetime) -> list[str]:
    """Say whether a receipt of this moment, or of the next partition's, would meet none."""
    current = next(
        (p for p in parts if p.starts_at and p.ends_at and p.starts_at <= present < p.ends_at), None
    )
    if current is None:
        return ["receipts have no partition for this moment"]
    if not any(part.starts_at == current.ends_at for part in parts):
        return [f"the next partition is missing: {current.name} is the last"]
    return []
