"""Counts the ledger by SQL of its own, past the server: the only witness that the demo believes.

Nothing here asks the API or the receipts. A Postgres ledger lives in a schema that is made for one
run and dropped after it; the receipts stay in theirs, as in any database that was migrated.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

COUNT = "select payment_id, count(*) from ledger group by payment_id"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a count means for the payments that were to be made; each tuple holds payment ids."""

    rows: int
    twice: tuple[str, ...]
    lost: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def exactly_once(self) -> bool:
        """Whether every payment is in the ledger once, and nothing else is."""
        return not (self.twice or self.lost or self.foreign)


def judge(wanted: Iterable[str], charged: Mapping[str, int]) -> Verdict:
    """Compare the payments that were to be made with how often each was charged."""
    ids = list(wanted)
    return Verdict(
        rows=sum(charged.values()),
        twice=tuple(each for each in ids if charged.get(each, 0) > 1),
        lost=tuple(each for each in ids if charged.get(each, 0) == 0),
        foreign=tuple(sorted(charged.keys() - set(ids))),
    )


@dataclass(frozen=True, slots=True)
class SQLiteLedger:
    """The ledger beside the receipts in one SQLite file."""

    path: Path

    @property
    def url(self) -> str:
        """What the server gets as RECEIPTS."""
        return f"sqlite:///{quote(str(self.path))}"

    def charged(self) -> Counter[str]:
        """Return how often each payment was charged."""
        with closing(sqlite3.connect(self.path)) as connection:
            return Counter(dict(connection.execute(COUNT).fetchall()))


@dataclass(frozen=True, slots=True)
class PostgresLedger:
    """The ledger in the one schema of the search path of `url`."""

    url: str

    def charged(self) -> Counter[str]:
        """Return how often each payment was charged."""
        with psycopg.connect(self.url) as connection:
            return Counter(dict(connection.execute(COUNT).fetchall()))


@contextmanager
def fresh_schema(url: str) -> Iterator[PostgresLedger]:
    """Make a schema for one run; drop it, with the ledger in it, at the end."""
    name = f"replayfloor_demo_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
    try:
        mark = "&" if "?" in url else "?"
        yield PostgresLedger(f"{url}{mark}options=-csearch_path%3D{name}")
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
