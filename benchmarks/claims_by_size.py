"""Is a claim among 20 million receipts as fast as among 20 thousand? See benchmarks/README.md.

`python -m benchmarks.claims_by_size`, from the project's folder. Exit status 1 if a ratio of the
claims is above `--limit`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, cast

import psycopg
from benchmarks.blocks import ManyConnections, OneConnection, Operation, work_for
from benchmarks.figures import Blocks, Compared, table
from benchmarks.receipts import PARTITIONS, Filled, fill
from benchmarks.server import private_postgres

LARGE, SMALL = 20_000_000, 20_000
BLOCKS_MIN: Final = 1
WARM_UP: Final = 10
"""Operations for each connection before anything is measured: a function's statements are planned
anew five times on each connection before their plan is kept."""

CLAIMS: Final = ("first claim", "replay")
"""What `--limit` is about. A finish is an insert into one partition, and is only shown."""

Caller: TypeAlias = OneConnection | ManyConnections
Measured: TypeAlias = dict[tuple[int, Operation, str], list[list[int]]]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    rows: int
    base_rows: int
    blocks: int
    operations: int
    connections: int
    shared_buffers: str
    limit: float | None
    json: Path | None

    def of_each_kind(self, connections: int) -> int:
        """Return how many operations of a kind are in a block."""
        return self.operations * (1 if connections == 1 else 4)


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of a database that were found in shared buffers, and that had to be read."""

    hit: int
    read: int

    def since(self, earlier: Pages) -> Pages:
        """Return what came since then."""
        return Pages(self.hit - earlier.hit, self.read - earlier.read)


def options_of(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=LARGE, help="receipts in the large database (%(default)s)")
    add("--base-rows", type=int, default=SMALL, help="in the small ones (%(default)s)")
    add("--blocks", type=int, default=42, help="measured on each database (%(default)s)")
    add(
        "--operations",
        type=int,
        default=150,
        help="of each kind in a block at one connection, four times as many at many (%(default)s)",
    )
    add("--connections", type=int, default=16, help="how many `many` are (%(default)s)")
    add("--shared-buffers", default="2GB", help="of the server (%(default)s)")
    add("--limit", type=float, help="exit 1 if a claim's ratio is above it")
    add("--json", type=Path, help="write every figure to this file")
    given = parser.parse_args(arguments)
    if min(given.rows, given.base_rows) < PARTITIONS or given.blocks < BLOCKS_MIN:
        parser.error(f"at least {PARTITIONS} rows and {BLOCKS_MIN} block")
    return Options(**vars(given))


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, measure, report; return the exit status."""
    options = options_of(arguments)
    with private_postgres(options.shared_buffers) as server:
        sizes = (
            ("small", options.base_rows),
            ("large", options.rows),
            ("control", options.base_rows),
        )
        filled = [fill(server.database(name), name, rows, say) for name, rows in sizes]
        load = os.getloadavg()[0]
        before = [pages(each.url) for each in filled]
        compared = compare(measure(filled, options), options)
        touched = [pages(each.url).since(was) for each, was in zip(filled, before, strict=True)]
        about = surroundings(server.url, options) | {"load": [load, os.getloadavg()[0]]}
    report(about, filled, touched, compared)
    if options.json is not None:
        whole = about | {
            "databases": [asdict(each) for each in filled],
            "pages": [asdict(each) for each in touched],
            "results": [each.as_json() for each in compared],
        }
        options.json.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    return verdict(compared, options.limit)


def surroundings(url: str, options: Options) -> dict[str, object]:
    """Return what the figures depend on, beside the size."""
    return {
        "measured": datetime.now(UTC).isoformat(timespec="minutes"),
        "postgres": version(url),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "shared_buffers": options.shared_buffers,
        "blocks": options.blocks,
        "operations": [options.of_each_kind(1), options.of_each_kind(options.connections)],
    }


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)


def measure(filled: Sequence[Filled], options: Options) -> Measured:
    """Run the blocks in turn, small, large, control, small, large …; return their times in ns.

    Each round begins with another database: what a block leaves to the next one (pages to write,
    at 16 more than at one) is each one's burden as often.
    """
    many = options.connections
    callers: list[tuple[int, list[tuple[Filled, Caller]]]] = [
        (1, [(each, OneConnection(each)) for each in filled]),
        (many, [(each, ManyConnections(each, many)) for each in filled]),
    ]
    measured: Measured = defaultdict(list)
    try:
        for connections, turns in callers:
            for each, caller in turns:
                caller.run(work_for(each.rows, WARM_UP * connections))
        for block in range(options.blocks):
            say(f"block {block + 1} of {options.blocks}, load {os.getloadavg()[0]:.1f}")
            first = block % len(filled)
            for connections, turns in callers:
                operations = options.of_each_kind(connections)
                for each, caller in turns[first:] + turns[:first]:
                    times = caller.run(work_for(each.rows, operations))
                    for operation, taken in times.items():
                        measured[connections, operation, each.name].append(taken)
    finally:
        for _connections, turns in callers:
            for _each, caller in turns:
                caller.close()
    return measured


def compare(measured: Measured, options: Options) -> list[Compared]:
    """Put the databases side by side."""
    operations: tuple[Operation, ...] = ("first claim", "finish", "replay")
    return [
        Compared(
            connections,
            operation,
            *(
                Blocks.of(measured[connections, operation, name])
                for name in ("small", "large", "control")
            ),
        )
        for connections in (1, options.connections)
        for operation in operations
    ]


def pages(url: str) -> Pages:
    """Return what a database has touched so far."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select blks_hit, blks_read from pg_stat_database where datname = current_database()"
        ).fetchone()
    hit, read = cast("tuple[int, int]", row)
    return Pages(hit, read)


def version(url: str) -> str:
    """Return which Postgres it is, and whether it waits for the disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select current_setting('server_version') || ', fsync '"
            " || current_setting('fsync') || ', synchronous_commit '"
            " || current_setting('synchronous_commit')"
        ).fetchone()
    assert row is not None  # a select without a table returns one row
    return str(row[0])


def report(
    about: dict[str, object],
    filled: Sequence[Filled],
    touched: Sequence[Pages],
    compared: Sequence[Compared],
) -> None:
    """Print what was measured, on what."""
    print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    operations = sum(one.operations for one in compared)
    for each, pages_of_it in zip(filled, touched, strict=True):
        print(
            f"{each.name}: {each.rows:,} receipts over {PARTITIONS} partitions, filled in "
            f"{each.took_s:.0f} s; heap {each.heap / 1e6:,.0f} MB, index {each.index / 1e6:,.0f} "
            f"MB, {each.bytes_a_row:.0f} bytes a receipt; pages an operation: "
            f"{pages_of_it.hit / operations:.1f} found in shared buffers, "
            f"{pages_of_it.read / operations:.2f} read"
        )
    print()
    print(table(compared))


def verdict(compared: Sequence[Compared], limit: float | None) -> int:
    """Return the exit status, and say why it is not 0."""
    if limit is None:
        return 0
    beyond = [line for one in compared if one.operation in CLAIMS for line in one.beyond(limit)]
    for line in beyond:
        print(f"above {limit:g}: {line}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
