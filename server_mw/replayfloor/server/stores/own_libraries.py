"""How statements run in the transaction that a handler has open with SQLAlchemy or Django.

The transaction stays the handler's: nothing is committed, rolled back or closed here, and the
errors of the database pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias, cast

from replayfloor.core.errors import UsageError
from replayfloor.server.stores.own_connection import (
    DjangoConnection,
    SQLiteMode,
    comes_from,
    refuse_autocommit,
    refuse_django_autocommit,
    refuse_other_database,
    refuse_sqlite_autocommit,
)
from replayfloor.server.stores.placeholders import with_colons
from replayfloor.server.stores.protocols import Row

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection as SQLAlchemyConnection
    from sqlalchemy.pool import PoolProxiedConnection

Database: TypeAlias = Literal["postgresql", "sqlite"]

Run: TypeAlias = Callable[[LiteralString, Mapping[str, object]], Sequence[Row]]
"""Runs a statement of sql/… in the handler's transaction and returns its rows."""


def library_run(connection: object, database: Database) -> Run | None:
    """Return how statements run on the connection of a library; None for one that is of none.

    Raises UsageError for a connection to another kind of database, and for one that would commit
    each statement by itself.
    """
    if comes_from("sqlalchemy.ext.asyncio", connection):
        raise UsageError("the store blocks, and the connection of SQLAlchemy is asynchronous")
    if comes_from("sqlalchemy", connection):
        return partial(_in_sqlalchemy, _sqlalchemy_connection(connection, database))
    if comes_from("django", connection):
        return partial(_in_django, _django_connection(connection, database))
    return None


def refuse_sqlalchemy_autocommit(raw: PoolProxiedConnection, database: Database) -> None:
    """Raise UsageError if the driver below SQLAlchemy would commit each statement by itself."""
    if database == "sqlite":
        refuse_sqlite_autocommit(cast("SQLiteMode", raw.driver_connection))
    else:
        refuse_autocommit(getattr(raw.dbapi_connection, "autocommit", False))


def _sqlalchemy_connection(connection: object, database: Database) -> SQLAlchemyConnection:
    from sqlalchemy.engine import Connection
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(connection, scoped_session | Session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        raise UsageError("of SQLAlchemy, a Connection or a Session is usable")
    refuse_other_database(database, connection.dialect.name)
    refuse_sqlalchemy_autocommit(connection.connection, database)
    return connection


def _in_sqlalchemy(
    connection: SQLAlchemyConnection, statement: LiteralString, values: Mapping[str, object]
) -> Sequence[Row]:
    from sqlalchemy import text

    result = connection.execute(text(with_colons(statement)), dict(values))
    return [tuple(row) for row in result.all()] if result.returns_rows else ()


def _django_connection(connection: object, database: Database) -> DjangoConnection:
    django = cast("DjangoConnection", connection)
    if not hasattr(connection, "in_atomic_block"):
        raise UsageError("of Django, django.db.connection is usable, or one of connections[…]")
    refuse_other_database(database, django.vendor)
    refuse_django_autocommit(django)
    return django


def _in_django(
    connection: DjangoConnection, statement: LiteralString, values: Mapping[str, object]
) -> Sequence[Row]:
    # Its cursor leaves the `:name` of a statement for SQLite as it is, and the driver takes it.
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else ()
