"""What the tests of the doctor share: findings by name, and a database that is as it should be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from replayfloor.server.doctor.check_postgres import check_postgres
from replayfloor.server.doctor.findings import Finding, Level
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.read_postgres import read_postgres
from replayfloor.server.doctor.wanted import Wanted

PATIENCE_S, POLL_S = 20.0, 0.02

OK, NOTE, WARNING, CRITICAL = Level.OK, Level.NOTE, Level.WARNING, Level.CRITICAL


def the(findings: Iterable[Finding], check: str) -> Finding:
    """Return the one finding of a check."""
    (found,) = (each for each in findings if each.check == check)
    return found


def worse_than(level: Level, findings: Iterable[Finding]) -> dict[str, str]:
    """Return what is worse than a level, by check."""
    return {each.check: each.found for each in findings if each.level > level}


@dataclass(frozen=True)
class Patient:
    """A database of receipts that is looked at."""

    url: str

    def run(self, query: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def examine(
        self,
        limits: Limits | None = None,
        wanted: Wanted | None = None,
        *,
        as_role: str = "postgres",
    ) -> list[Finding]:
        """Return everything that the doctor says, asked by a role."""
        facts = read_postgres(self.url.replace("postgres@", f"{as_role}@"))
        return check_postgres(facts, limits, wanted)

    def level(
        self, check: str, limits: Limits | None = None, wanted: Wanted | None = None
    ) -> Level:
        """Return how bad one check finds it."""
        return the(self.examine(limits, wanted), check).level

    @property
    def name(self) -> str:
        """The database's name."""
        return self.url.rpartition("/")[2]


def until(true: Callable[[], bool]) -> None:
    """Wait for what a server does by and by."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


@contextmanager
def role(patient: Patient, name: str, options: str = "") -> Iterator[str]:
    """Make a role that may log in, for a while."""
    patient.run(f"create role {name} login {options}")
    try:
        yield name
    finally:
        patient.run(f"drop owned by {name}")
        patient.run(f"drop role {name}")
