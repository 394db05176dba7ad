"""Which library a handler's own connection is of, and whether it would commit too early. No I/O.

A library is recognised by the connection that comes from it: none is imported for that, since an
application that does not use it need not have it.
"""

from __future__ import annotations

from typing import Protocol

from replayfloor.core.errors import UsageError
from replayfloor.server.stores.protocols import Row

AUTOCOMMIT = (
    "the connection is in autocommit mode and no transaction is open on it: the receipt would be "
    "committed on its own, before or without what the handler writes; begin a transaction first"
)


class DjangoConnection(Protocol):
    """What is used of `django.db.connection`."""

    vendor: str
    in_atomic_block: bool

    def get_autocommit(self) -> bool:
        """Say whether each statement is committed by itself."""
        ...

    def cursor(self) -> DjangoCursor:
        """Return a cursor, for a `with` statement."""
        ...


class DjangoCursor(Protocol):
    """What is used of a cursor of Django's."""

    description: object

    def __enter__(self) -> DjangoCursor:
        """Return the cursor itself."""
        ...

    def __exit__(self, *error: object) -> None:
        """Close the cursor."""
        ...

    def execute(self, sql: str, params: object) -> object:
        """Run a statement."""
        ...

    def fetchall(self) -> list[Row]:
        """Return the rows."""
        ...


class SQLiteMode(Protocol):
    """What `sqlite3` and `aiosqlite` say of a connection's transactions."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    @property
    def isolation_level(self) -> str | None:
        """How a transaction is begun by itself before a write; None: it is not."""
        ...


def comes_from(library: str, connection: object) -> bool:
    """Say whether the connection's class, or one it inherits from, is the library's."""
    dotted = library + "."
    return any(f"{each.__module__}.".startswith(dotted) for each in type(connection).__mro__)


def refuse_autocommit(commits_each_statement: object) -> None:
    """Raise UsageError if the receipt would be committed apart from the handler's writes."""
    if commits_each_statement:
        raise UsageError(AUTOCOMMIT)


def refuse_sqlite_autocommit(connection: SQLiteMode) -> None:
    """Raise UsageError unless a transaction is open or is begun by the next write."""
    # From Python 3.12 on `autocommit` may say it; -1 leaves it to the isolation level.
    each = connection.isolation_level is None or getattr(connection, "autocommit", -1) == 1
    refuse_autocommit(each and not connection.in_transaction)


def refuse_django_autocommit(connection: DjangoConnection) -> None:
    """Raise UsageError outside of `atomic`, unless the application switched autocommit off."""
    refuse_autocommit(not connection.in_atomic_block and connection.get_autocommit())


def refuse_other_database(expected: str, found: str) -> None:
    """Raise UsageError if the connection is to another kind of database than the receipts."""
    if found != expected:
        raise UsageError(f"the receipts are in {expected}, but the connection is to {found}")


def unknown(connection: object, usable: str) -> UsageError:
    """Return the error for a connection that the store cannot write through."""
    kind = type(connection)
    return UsageError(f"cannot finish in a {kind.__module__}.{kind.__qualname__}; usable: {usable}")
