"""A private Postgres and a private Redis for one benchmark; gone with their files at the end.

They are the servers of the tests (tests/support/services), with settings of their own. Postgres is
as durable as production. Redis keeps nothing on disk: what it holds is a lock and a copy of what
Postgres has.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

TESTS = Path(__file__).resolve().parents[1] / "tests"

WAL_MAX = "4GB"
"""So that a fill is not one checkpoint after the other. Each first change of a page after one
writes the whole page, and a fill with random ids changes nearly all of them."""

SHARED_BUFFERS: Final = "256MB"
"""Of a server that a throughput benchmark starts: the tables of a run, whole."""

VOLATILE: Final = {"appendonly": "no", "save": ""}
"""Redis without a file. Its loss never costs a receipt, so nobody waits for its disk."""


class PrivatePostgres(Protocol):
    """What a benchmark needs of the server."""

    @property
    def url(self) -> str:
        """The address of the maintenance database."""
        ...

    def database(self, name: str) -> str:
        """Create an empty database, and return its address."""
        ...


class PrivateRedis(Protocol):
    """What a benchmark needs of the Redis."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def database(self) -> str:
        """Return the address of an empty logical database."""
        ...


@dataclass(frozen=True, slots=True)
class Servers:
    """A Postgres and a Redis."""

    postgres: PrivatePostgres
    redis: PrivateRedis


@contextmanager
def private_postgres(shared_buffers: str) -> Generator[PrivatePostgres]:
    """Start a server, and stop it and remove its files at the end."""
    _find_support()
    from support.services import Postgres, Services
    from support.services.binaries import find_postgres

    with Services() as services:
        binaries = find_postgres()
        bin_dir = binaries.readable_by(services.site.account, services.site.base / "bin")
        settings = {"shared_buffers": shared_buffers, "max_wal_size": WAL_MAX}
        server = Postgres(services.site, bin_dir, "bench", **settings)
        server.create()
        services.adopt(server)
        yield server


@contextmanager
def private_servers(shared_buffers: str = SHARED_BUFFERS) -> Generator[Servers]:
    """Start a Postgres and a Redis, and stop them and remove their files at the end."""
    _find_support()
    from support.services import Redis, Services
    from support.services.binaries import find_redis

    with private_postgres(shared_buffers) as postgres, Services() as services:
        redis = Redis(services.site, find_redis(), "bench-redis", **VOLATILE)
        services.adopt(redis)
        yield Servers(postgres, redis)


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    _find_support()
    from support.services.server import free_port

    return free_port()


def _find_support() -> None:
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
