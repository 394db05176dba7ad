"""The journal's own schema in Postgres: is it there, is it ours, and making it. No other DDL."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

import psycopg
from psycopg import IsolationLevel

from replayfloor.client.journal.postgres_link import BoundedConnection, one_line, unavailable
from replayfloor.client.journal.statements import postgres_statement
from replayfloor.core.errors import ConfigurationError

SCHEMA_VERSION: Final = 1

ADVISORY_LOCK: Final = 0x72706C636C69
"""Held while the schema is made, so that several processes make it one after the other."""

ENCODING: Final = "UTF8"
"""The database's: any other has texts that it cannot keep, and an entry could not be written."""

ADVICE: Final = "run `replayfloor client migrate URL` with a role that may"

GRANTS: Final = (
    "grant usage on schema replayfloor_client and select, insert, update, delete on all tables "
    "in it to the role"
)

_LOOK: Final = postgres_statement("schema_look")
_VERSION: Final = postgres_statement("schema_version")
_LOCK: Final = postgres_statement("schema_lock")
_NEW: Final = postgres_statement("schema_new")
_PARTS: Final = tuple(
    postgres_statement(f"schema_{part}")
    for part in ("tables", "clock", "durable", "begin", "start_attempt")
)
"""In this order: each needs those before it."""


class _Found(Enum):
    NOTHING = auto()
    EMPTY = auto()
    """The schema without anything in it: somebody made it for a role that may not."""
    OURS = auto()


def ensure_schema(connection: BoundedConnection) -> bool:
    """Make the schema if it is not there; return whether it was made by this call.

    Safe to call in several processes at once. Raises ConfigurationError if the role may not, or if
    what is there is not a journal of this release, StoreUnavailable if there is no answer.
    """
    with _told():
        return False if _found(connection) is _Found.OURS else _make(connection)


def require_schema(connection: BoundedConnection) -> bool:
    """Refuse a database without a journal; nothing is made. Returns False, as nothing was.

    Raises ConfigurationError also for what is not a journal of this release, StoreUnavailable if
    there is no answer.
    """
    with _told():
        if _found(connection) is not _Found.OURS:
            raise ConfigurationError("there is no journal in this database. Nothing was made")
    return False


@contextmanager
def _told() -> Generator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "the role may not make the schema replayfloor_client, in which the journal is: "
            f"{ADVICE}, and {GRANTS} of the application ({one_line(error)})"
        ) from error
    except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.SerializationFailure) as error:
        raise unavailable(error, performed=False) from error
    except psycopg.Error as error:
        raise unavailable(error) from error


def _make(connection: BoundedConnection) -> bool:
    # Whoever waited for the lock has to see what was committed meanwhile, whatever the default is.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    with connection.transaction():
        connection.execute(_LOCK, {"lock": ADVISORY_LOCK})
        found = _found(connection)
        if found is _Found.OURS:
            return False
        for statement in ((_NEW,) if found is _Found.NOTHING else ()) + _PARTS:
            connection.execute(statement)
    return True


def _found(connection: BoundedConnection) -> _Found:
    """Return what there is; raises ConfigurationError if the journal cannot be there."""
    look = connection.execute(_LOOK).fetchone()
    assert look is not None  # the statement returns one row
    if look["encoding"] != ENCODING:
        raise ConfigurationError(
            f"the journal needs a database whose encoding is {ENCODING}, not {look['encoding']}"
        )
    if not look["filled"]:
        return _Found.EMPTY if look["present"] else _Found.NOTHING
    version = _version(connection) if look["versioned"] else None
    if version is None:
        raise ConfigurationError(
            "the database has a schema replayfloor_client that is not a journal of replayfloor: "
            "use another database, or rename that schema"
        )
    if version != SCHEMA_VERSION:
        raise ConfigurationError(
            f"the journal in Postgres has schema version {version}, this release knows "
            f"{SCHEMA_VERSION}: {_advice(version)}"
        )
    return _Found.OURS


def _version(connection: BoundedConnection) -> int | None:
    """Return the version, None if what is called like it does not tell one."""
    try:
        row = connection.execute(_VERSION).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"the role may not use the journal: {GRANTS} ({one_line(error)})"
        ) from error
    except (psycopg.errors.UndefinedColumn, psycopg.errors.WrongObjectType):
        return None
    version = row["version"] if row else None
    return version if isinstance(version, int) else None


def _advice(version: int) -> str:
    if version > SCHEMA_VERSION:
        return "use the release that made it, or a newer one"
    # No release made an older one, so that none is brought up to date.
    return (
        "reconcile what is pending in it, then rename the schema replayfloor_client; a new one is "
        "made in its place"
    )
