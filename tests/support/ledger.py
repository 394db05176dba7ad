"""The ledger: one row per execution, in a database of its own or in that of the receipts.

Handlers write to it, tests count it. Whatever a server answers, this is what has happened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import psycopg

SQLITE_SCHEME = "sqlite:///"
BUSY_S = 10.0
TABLE = "create table ledger (payment text not null, run text not null, name text unique)"
INSERT = "insert into ledger (payment, run, name) values ({0}, {0}, {0}) on conflict do nothing"


def nothing() -> None:
    """Go on."""


class Ledger:
    """The table `ledger`: payment, the execution that wrote the row, and perhaps a unique name.

    A row with a name is written once, however often that is tried.
    """

    def __init__(self, url: str) -> None:
        """Name the database, as `receipts=` does; connect nothing."""
        self.url = url
        self._postgres = not url.startswith(SQLITE_SCHEME)
        self._target = url if self._postgres else url.removeprefix(SQLITE_SCHEME)
        self.insert = INSERT.format("%s" if self._postgres else "?")

    def create(self) -> None:
        """Make the table."""
        self._commit(TABLE, ())

    def write(
        self,
        payment: str,
        run: str,
        name: str | None = None,
        *,
        before_commit: Callable[[], None] = nothing,
    ) -> None:
        """Write one row on a connection of its own, committed when this returns."""
        self._commit(self.insert, (payment, run, name), before_commit)

    def _commit(
        self,
        statement: str,
        values: tuple[str | None, ...],
        before_commit: Callable[[], None] = nothing,
    ) -> None:
        if self._postgres:
            with psycopg.connect(self._target) as server:
                server.execute(statement.encode(), values)
                before_commit()
        else:
            with closing(sqlite3.connect(self._target, timeout=BUSY_S)) as file, file:
                file.execute(statement, values)
                before_commit()

    def runs(self, payment: str) -> list[str]:
        """Return the executions that wrote a row for a payment."""
        place = "%s" if self._postgres else "?"
        rows = self._read(f"select run from ledger where payment = {place}", (payment,))
        return [str(run) for (run,) in rows]

    def all_runs(self) -> dict[str, list[str]]:
        """Return the executions that wrote a row, for every payment that has one."""
        runs: dict[str, list[str]] = {}
        for payment, run in self._read("select payment, run from ledger", ()):
            runs.setdefault(str(payment), []).append(str(run))
        return runs

    def _read(self, query: str, values: tuple[str, ...]) -> list[tuple[object, ...]]:
        if self._postgres:
            with psycopg.connect(self._target) as server:
                return server.execute(query.encode(), values).fetchall()
        with closing(sqlite3.connect(self._target, timeout=BUSY_S)) as file:
            return file.execute(query, values).fetchall()
