"""What is used of Django's connections, with types, since Django has none; what its errors and its
settings mean for receipts. No transaction is begun or ended here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal, Protocol, cast

from django.db import (  # pyright: ignore[reportMissingTypeStubs]
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)

from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.server.adapters.libpq import conninfo
from replayfloor.server.stores import Cursor, Parameters, Receipts
from replayfloor.server.stores.sqlite import SQLiteReceipts

Execute = Callable[[object, object, object, object], object]
"""Runs a statement: SQL, parameters, whether they are many, and Django's context."""

Wrapper = Callable[[Execute, object, object, object, object], object]


class DatabaseCursor(Cursor, Protocol):
    """A cursor of Django's."""

    def execute(self, sql: str, params: Parameters | None = None) -> object:
        """Run a statement."""
        ...


class Driver(Protocol):
    """The connection of the driver; the last two are those of `sqlite3`."""

    def rollback(self) -> None:
        """Roll back."""
        ...

    def execute(self, sql: str, /) -> object:
        """Run a statement."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...


class Database(Protocol):
    """`django.db.connection`."""

    alias: str
    vendor: str
    settings_dict: Mapping[str, object]
    connection: Driver | None
    in_atomic_block: bool
    savepoint_ids: list[object]
    execute_wrappers: list[Wrapper]
    wrap_database_errors: AbstractContextManager[object]
    close_if_unusable_or_obsolete: Callable[[], None]

    def cursor(self) -> DatabaseCursor:
        """Return a cursor."""
        ...

    def close(self) -> None:
        """Close the driver's connection; in a transaction, what was written is undone."""
        ...

    def get_connection_params(self) -> Mapping[str, object]:
        """Return what the driver is called with."""
        ...


class Block(Protocol):
    """`transaction.atomic`."""

    def __enter__(self) -> object:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: None
    ) -> object:
        """Commit, or roll back for an exception."""
        ...


def database_of(using: str) -> Database:
    """Return this thread's connection."""
    return cast("Database", connections[using])


def durable_block(using: str) -> Block:
    """Return an atomic block that refuses to be inside of another one."""
    atomic = cast("Callable[..., Block]", getattr(transaction, "atomic"))  # noqa: B009 - untyped
    return atomic(using=using, durable=True)


def receipts_in(using: str) -> Receipts:
    """Return the receipts in one of Django's databases. Raises ConfigurationError."""
    database = database_of(using)
    match database.vendor:
        case "postgresql":
            address = conninfo(database.get_connection_params())
            from replayfloor.server.stores.postgres import PostgresReceipts

            return PostgresReceipts(address)
        case "sqlite":
            return SQLiteReceipts(_file(using, database.settings_dict["NAME"]))
        case vendor:
            raise ConfigurationError(
                f"receipts through Django need Postgres or a SQLite file; {using!r} is {vendor}"
            )


def _file(using: str, name: object) -> Path:
    # Django gives SQLite a URI, so that a name may be one.
    if not name or name == ":memory:" or str(name).startswith("file:"):
        raise ConfigurationError(
            f"receipts in SQLite need a file: the NAME of {using!r} has to be a path, not {name!r}"
        )
    return Path(str(name))


@contextmanager
def unavailable(*, performed: Literal[False] | None) -> Generator[None]:
    """Turn "no connection" and "no answer" into StoreUnavailable; other errors pass through."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreUnavailable(
            f"the database did not answer: {error}", performed=performed
        ) from error
    except StoreUnavailable as error:
        error.performed = performed
        raise
