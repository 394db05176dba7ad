"""Puts sightings together per operation, outside of memory: a scratch database, gone afterwards.

A year of JSON lines tells of more operations than fit memory, in any order. SQLite spills a
nameless database to a temporary file, which nobody else can open and which ends with the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from typing import Final, TypeAlias

from replayfloor.client.tail.sightings import Sighting
from replayfloor.core.errors import StoreUnavailable

_CACHE_KIB: Final = 64 * 1024
"""Of pages kept in memory: some hundred thousand operations. The rest is in the file."""

_Row: TypeAlias = tuple[
    str, str, str, int, int, int, int, int, int, int, int, int, float | None, int | None
]


def _statement(name: str) -> str:
    return (files("replayfloor.client.tail") / "sql" / f"{name}.sql").read_text("utf-8")


class Scratch:
    """Sightings, one per operation. Raises StoreUnavailable if there is no space for them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("pragma journal_mode = off").close()
        connection.execute("pragma synchronous = off")
        connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
        connection.execute(_statement("create_sightings"))
        connection.execute("begin")
        self._merge: Final = _statement("merge_sighting")

    def add(self, sightings: Iterable[Sighting]) -> None:
        """Put sightings together with those before."""
        with _unavailable():
            self._connection.executemany(self._merge, sightings)

    def read(self) -> Iterator[Sighting]:
        """Return what all sightings of each operation say together."""
        with _unavailable():
            rows: Iterator[_Row] = self._connection.execute(_statement("read_sightings"))
            for row in rows:
                yield Sighting(*row)


@contextmanager
def open_scratch() -> Generator[Scratch]:
    """Return an empty scratch database; it is gone afterwards."""
    with _unavailable(), closing(sqlite3.connect("", isolation_level=None)) as connection:
        yield Scratch(connection)


@contextmanager
def _unavailable() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the temporary file of the report: {error}") from error
