"""How receipts are laid out: one plain table, or partitions, and how wide. Arithmetic only.

Dropping a partition costs nothing, however many rows it has, and leaves no dead ones; deleting
rows costs a write for each. But every claim looks into each partition that may hold its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from replayfloor.retention.durations import US_PER_S, exact_us, format_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.storage import RATE_MAX_PER_S

LIVE_PARTITIONS_MAX: Final = 8
"""A claim probes each of them. With 2 million rows, 7 cost a third of the throughput of one table,
and 37 four fifths of it."""

EDGES: Final = 2
"""Partitions beyond those that a retention fills: its window begins within one and ends within
another, and the next one is there before its time comes."""

PLAIN_BELOW_PER_S: Final = 1.0
"""Below so many writes a second a day has fewer than 86,400 rows: a sweep deletes them in a few
batches, autovacuum keeps up, and there is no partition that could be missing at midnight."""

HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Plain:
    """One table, an index on the time, and a sweep that deletes in batches."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A table in partitions of `width_s` seconds, of which at most `live` exist at a time."""

    width_s: float
    live: int
    reasons: tuple[str, ...]


Layout: TypeAlias = Plain | Partitioned


def partition_width_s(retention_s: float) -> float:
    """Return how wide a partition is for a retention, both in seconds; raises PolicyError.

    The narrowest whole number of hours with which no more than LIVE_PARTITIONS_MAX partitions are
    live. Narrow, because a receipt stays until the *end* of its partition is past the retention:
    the width is what is stored for nothing, here about a sixth. Whole hours, because boundaries
    are multiples of the width since 1970: hours are easy to read in a partition's name, and a
    narrower one is not worth the maintenance that has to run as often.
    """
    hours = -(-_require(retention_s) // (HOUR_S * US_PER_S))
    return float(-(-hours // (LIVE_PARTITIONS_MAX - EDGES)) * HOUR_S)


def live_partitions(retention_s: float, width_s: float) -> int:
    """Return how many partitions of a width, at most, hold rows or wait for them.

    Both in seconds; raises PolicyError.
    """
    return -(-_require(retention_s) // _require(width_s, "a width")) + EDGES


def advise_layout(rate_per_s: float, retention_s: float) -> Layout:
    """Return the layout for so many new keys a second, kept for so many seconds, and why.

    Raises PolicyError.
    """
    if not 0 <= rate_per_s <= RATE_MAX_PER_S:
        raise PolicyError(
            f"{rate_per_s} is no rate", advice=f"it is 0 to {RATE_MAX_PER_S:,.0f} keys a second"
        )
    width_s = partition_width_s(retention_s)
    live = live_partitions(retention_s, width_s)
    if rate_per_s < PLAIN_BELOW_PER_S:
        return Plain(
            (
                f"below about {PLAIN_BELOW_PER_S:g} write a second a sweep deletes expired "
                "receipts in a few batches",
                "there is no partition that has to be made ahead, and could be missing",
            )
        )
    return Partitioned(
        width_s,
        live,
        (
            "whole partitions are dropped: no row is deleted, and none is left dead",
            f"a claim looks into at most {live} partitions of {format_duration(width_s)}",
            f"a receipt stays for up to {format_duration(width_s)} longer, until its partition "
            "is dropped",
        ),
    )


def _require(length_s: float, name: str = "a retention") -> int:
    us = exact_us(length_s, name)
    if us == 0:
        raise PolicyError(f"{name} is zero", advice="it is more than 0")
    return us
