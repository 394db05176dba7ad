"""Reads the noted policies of a database, for people and checks; no request is served from here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from typing import cast

from replayfloor.core.errors import ConfigurationError, SchemaMissing, StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores import POSTGRES_MISSING
from replayfloor.server.stores.policies import NotedPolicy
from replayfloor.server.stores.policies_sqlite import read_policies
from replayfloor.server.stores.sqlite_work import path_of

WAIT_S = 10
"""How long a connection is waited for: a person or a monitor waits, not a request."""


def noted_policies(url: str) -> list[NotedPolicy]:
    """Return what was declared to a database, `postgresql://…` or `sqlite:///path`.

    Raises ConfigurationError, SchemaMissing for a database that has not been migrated, and
    StoreUnavailable.
    """
    return _of_sqlite(url) if url.startswith("sqlite:") else _of_postgres(url)


def _of_sqlite(url: str) -> list[NotedPolicy]:
    path = path_of(url)
    if not path.is_file():
        raise ConfigurationError(f"there is no file {path}")
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=WAIT_S)) as database:
            return read_policies(database)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"SQLite {path}: {error}", performed=False) from error


def _of_postgres(url: str) -> list[NotedPolicy]:
    try:
        import psycopg

        from replayfloor.server.stores.postgres_options import conninfo_of
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    try:
        with psycopg.connect(conninfo_of(url), connect_timeout=WAIT_S) as connection:
            rows = connection.execute(load("sql/postgres/read_policies.sql")).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise SchemaMissing("the database lacks the policies: run `replayfloor migrate`") from error
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"no answer from Postgres: {error}", performed=False) from error
    return [NotedPolicy(*cast("tuple[str, str, float, str, datetime]", row)) for row in rows]
