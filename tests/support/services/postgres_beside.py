"""Further Postgres servers of one run: one for itself, and a primary with its streaming replica."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from .binaries import PostgresBinaries, find_postgres
from .postgres_server import Postgres
from .services import Services

LINK_S = 20.0
"""How long the link of a replica may take to stand, on a machine that is busy."""

POLL_S = 0.02


def start_beside(
    services: Services, name: str, binaries: PostgresBinaries | None = None, **settings: str
) -> Postgres:
    """Start a server beside the others, of these binaries or the usual; `services` stops it."""
    found = binaries or find_postgres()
    bin_dir = found.readable_by(services.site.account, services.site.base / "bin")
    postgres = Postgres(services.site, bin_dir, name, **settings)
    postgres.create()
    services.adopt(postgres)
    return postgres


class Replicated:
    """A primary, and a replica that streams from it and can take its place."""

    def __init__(self, primary: Postgres, replica: Postgres) -> None:
        self.primary, self.replica = primary, replica

    def url_of(self, database: str) -> str:
        """Return the address that leads to whichever of the two takes writes."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (self.primary, self.replica))
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    def stall(self) -> None:
        """Stop the process that sends to the replica: nothing that is committed gets there."""
        with psycopg.connect(self.primary.url, autocommit=True) as database:
            row = database.execute("select pid from pg_stat_replication").fetchone()
        assert row is not None
        os.kill(int(row[0]), signal.SIGSTOP)

    def fail_over(self) -> None:
        """kill -9 of the primary, then the replica takes its place."""
        self.primary.crash()
        self.replica.promote()


@contextmanager
def replicated(*, synchronous: bool) -> Iterator[Replicated]:
    """A primary and its replica, both new; every commit waits for the replica if `synchronous`.

    For how long a commit waits is up to `synchronous_commit`, which is left to the test.
    """
    with Services() as services:
        primary = start_beside(services, "primary")
        replica = primary.standby("replica")
        services.adopt(replica)
        both = Replicated(primary, replica)
        if synchronous:
            with psycopg.connect(primary.url, autocommit=True) as database:
                database.execute("alter system set synchronous_standby_names = '*'")
                database.execute("select pg_reload_conf()")
        _wait_until_linked(primary, "sync" if synchronous else "async")
        yield both


def _wait_until_linked(primary: Postgres, state: str) -> None:
    deadline = time.monotonic() + LINK_S
    with psycopg.connect(primary.url, autocommit=True) as database:
        while True:
            query = "select state, sync_state from pg_stat_replication"
            if database.execute(query).fetchall() == [("streaming", state)]:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the replica does not follow as {state}")
            time.sleep(POLL_S)
