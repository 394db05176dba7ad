"""Databases full of receipts: how they are made, and how the keys in them are called.

Nothing is measured here but how long the filling takes and how large it became.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias, cast

import psycopg

from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt, encode_receipt
from replayfloor.retention.layout import partition_width_s
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.migrate import migrate

PARTITIONS: Final = 6
"""How many partitions are full: as many as a retention of six widths keeps alive, the present one
included, whatever the hour."""

RETENTION_S: Final = 35 * 86_400.0
"""How long receipts are kept: of the retentions that are in use, a long one, so that no partition
begins or ends while the benchmark runs (they are 140 h wide)."""

ANSWER: Final = Response(201, (), b"")
"""The answer in every receipt: the tables are about keys, and a body would only make them larger
outside of the index."""

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Filled:
    """A migrated database full of receipts.

    Attributes:
        name: of the database.
        url: its address.
        rows: receipts in it, over all partitions.
        took_s: seconds that filling it took, vacuum included.
        heap, index: bytes, over all partitions.
    """

    name: str
    url: str
    rows: int
    took_s: float
    heap: int
    index: int

    @property
    def bytes_a_row(self) -> float:
        """What a receipt takes, its entry in the index included."""
        return (self.heap + self.index) / self.rows


def id_of(number: int) -> ReceiptId:
    """Return the id of the receipt with this number, as fill.sql makes it."""
    return ReceiptId(hashlib.md5(str(number).encode(), usedforsecurity=False).digest())


def receipt_of(id_: ReceiptId) -> Receipt:
    """Return the receipt of an id: its request is as much of a random number as the id."""
    return Receipt(Fingerprint(id_), ANSWER)


def fill(url: str, name: str, rows: int, say: Say) -> Filled:
    """Migrate an empty database, and fill PARTITIONS partitions evenly, the present one included.

    Args:
        url: address of the database.
        name: what it is called in the report.
        rows: how many receipts, at least one for each partition.
        say: is told how far it is.
    """
    began = time.perf_counter()
    migrate(url, keeping=Keeping(RETENTION_S))
    with psycopg.connect(url, autocommit=True) as connection:
        first = 0
        for number, start in enumerate(_partitions(connection), start=1):
            last = rows * number // PARTITIONS - 1
            _fill_one(connection, start, first, last)
            first = last + 1
            say(f"{name}: {first:,} of {rows:,} receipts, {time.perf_counter() - began:.0f} s")
        # Frozen, so that no autovacuum rewrites old pages while something is measured.
        connection.execute("vacuum (freeze, analyze)")
        connection.execute("checkpoint")
        took_s = time.perf_counter() - began
        heap, index = _sizes(connection)
    return Filled(name, url, rows, took_s, heap, index)


def _partitions(connection: psycopg.Connection[tuple[object, ...]]) -> list[datetime]:
    """Make the partitions of the past that lack; return where the full ones begin."""
    width_s = partition_width_s(RETENTION_S)
    width = timedelta(seconds=width_s)
    row = connection.execute(
        "select replayfloor.floor_v1(now(), %s::bigint),"
        " array(select starts_at from replayfloor.partitions_v1('receipts'))",
        (round(width_s * 1000),),
    ).fetchone()
    present, there = cast("tuple[datetime, list[datetime]]", row)
    starts = [present - back * width for back in reversed(range(PARTITIONS))]
    for start in starts:
        if start not in there:
            connection.execute(
                "select replayfloor.attach_partition_v1('receipts', %s, %s)",
                (start, start + width),
            )
    return starts


def _fill_one(
    connection: psycopg.Connection[tuple[object, ...]], start: datetime, first: int, last: int
) -> None:
    statement = Path(__file__).with_name("fill.sql").read_bytes()
    connection.execute(
        statement,
        {
            "first": first,
            "last": last,
            "start": start,
            "width": timedelta(seconds=partition_width_s(RETENTION_S)),
            "response": encode_receipt(receipt_of(id_of(0))),
        },
    )


def _sizes(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[int, int]:
    row = connection.execute(
        "select sum(pg_table_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint"
        " from pg_partition_tree('replayfloor.receipts') where isleaf"
    ).fetchone()
    return cast("tuple[int, int]", row)
