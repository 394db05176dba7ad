"""The part of the scale benchmark that fills tables: claims among ever more receipts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from typing import Final

from benchmarks.blocks import OneConnection, Operation, work_for
from benchmarks.figures import NS_PER_MS, percentile
from benchmarks.receipts import PARTITIONS, Filled, fill
from benchmarks.scale_load import Point
from benchmarks.server import private_postgres

OPERATIONS: Final = 200
"""Of a kind in a round."""

WARM_UP: Final = 10
SHARED_BUFFERS: Final = "128MB"
"""Less than the index of the largest table, as it would be in production."""

KINDS: Final[tuple[Operation, ...]] = ("first claim", "finish", "replay")


def by_size(sizes: Sequence[int], rounds: int) -> list[Point]:
    """Fill a database for each size, and let them take turns: one caller, one connection."""
    with private_postgres(SHARED_BUFFERS) as server:
        filled = [
            fill(server.database(f"size_{size}"), f"{size:,}", max(size, PARTITIONS), say)
            for size in sizes
        ]
        callers = [OneConnection(each) for each in filled]
        try:
            taken = {each.name: blocks(each, caller, 0) for each, caller in pairs(filled, callers)}
            for _ in range(rounds):
                for each, caller in pairs(filled, callers):
                    taken[each.name] += blocks(each, caller, OPERATIONS)
        finally:
            for caller in callers:
                caller.close()
    return [
        Point(kind, each.rows, percentile(of(taken[each.name], kind), 0.5) / NS_PER_MS)
        for kind in KINDS
        for each in filled
    ]


def pairs(
    filled: Sequence[Filled], callers: Sequence[OneConnection]
) -> list[tuple[Filled, OneConnection]]:
    """Return each database with its caller."""
    return list(zip(filled, callers, strict=True))


def blocks(
    filled: Filled, caller: OneConnection, operations: int
) -> list[dict[Operation, list[int]]]:
    """Run one block; none is counted that only warms up."""
    times = caller.run(work_for(filled.rows, operations or WARM_UP))
    return [times] if operations else []


def of(taken: Sequence[dict[Operation, list[int]]], kind: Operation) -> list[int]:
    """Return all times of one kind."""
    return list(chain.from_iterable(times[kind] for times in taken))


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)
