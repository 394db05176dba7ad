"""A private Postgres for one benchmark, as durable as production; gone with its files at the end.

It is the server of the tests (tests/support/services), with settings of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

TESTS = Path(__file__).resolve().parents[1] / "tests"

WAL_MAX = "4GB"
"""So that a fill is not one checkpoint after the other. Each first change of a page after one
writes the whole page, and a fill with random ids changes nearly all of them."""


class PrivatePostgres(Protocol):
    """What a benchmark needs of the server."""

    @property
    def url(self) -> str:
        """The address of the maintenance database."""
        ...

    def database(self, name: str) -> str:
        """Create an empty database, and return its address."""
        ...


@contextmanager
def private_postgres(shared_buffers: str) -> Generator[PrivatePostgres]:
    """Start a server, and stop it and remove its files at the end."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
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
