"""A ledger for handlers' transactions, and statements that they must not get to the server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from replayfloor.server.stores import AsyncConnection, Connection
from replayfloor.server.stores.migrate import migrate
from support.services import Services

OPERATION_S = 0.5
INSERT = "insert into ledger values (1)"

ENDING = [
    "commit",
    f"{INSERT}; commit",
    b"commit",
    sql.SQL("commit"),
    sql.SQL("{}; commit").format(sql.SQL(INSERT)),
]
"""Each would end the transaction if it reached the server."""


@contextmanager
def migrated_database(services: Services, name: str) -> Generator[str]:
    """Give the address of a migrated database with a ledger."""
    url = services.postgres.database(name)
    migrate(url)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("create table ledger (entry int)")
    yield url
    services.postgres.drop(name)


def empty_ledger(url: str) -> str:
    """Take away what earlier tests have written."""
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("delete from ledger")
    return url


def entries(url: str) -> int:
    """Count what was committed."""
    with psycopg.connect(url, autocommit=True) as database:
        row = database.execute("select count(*) from ledger").fetchone()
    assert row is not None
    return int(row[0])


def as_psycopg(connection: Connection) -> psycopg.Connection[DictRow]:
    """See the view as what it is a view of."""
    return cast("psycopg.Connection[DictRow]", connection)


def as_async_psycopg(connection: AsyncConnection) -> psycopg.AsyncConnection[DictRow]:
    """See the view as what it is a view of."""
    return cast("psycopg.AsyncConnection[DictRow]", connection)
