"""Where receipts live: the contract in both colours, and how a URL becomes a store. No SQL here."""

from __future__ import annotations

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.stores.protocols import (
    AsyncConnection,
    AsyncCursor,
    AsyncReceipts,
    AsyncTransaction,
    Connection,
    Cursor,
    Parameters,
    Receipts,
    Row,
    Transaction,
)

__all__ = [
    "AsyncConnection",
    "AsyncCursor",
    "AsyncReceipts",
    "AsyncTransaction",
    "Connection",
    "Cursor",
    "Parameters",
    "Receipts",
    "Row",
    "Transaction",
    "open_async_receipts",
    "open_receipts",
]

POSTGRES_MISSING = "receipts in Postgres need psycopg: install replayfloor[server]"


def open_async_receipts(url: str) -> AsyncReceipts:
    """Return the store of a URL for ASGI: `postgresql://…` or `sqlite:///path/to/file`.

    Nothing is connected yet. Raises ConfigurationError for any other URL, or if the driver of a
    known one is not installed.
    """
    if _is_postgres(url):
        try:
            from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
        except ImportError as error:
            raise ConfigurationError(POSTGRES_MISSING) from error
        return AsyncPostgresReceipts(url)
    from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
    from replayfloor.server.stores.sqlite_work import path_of

    return AsyncSQLiteReceipts(path_of(url))


def open_receipts(url: str) -> Receipts:
    """Return the store of a URL for WSGI; see `open_async_receipts`."""
    if _is_postgres(url):
        try:
            from replayfloor.server.stores.postgres import PostgresReceipts
        except ImportError as error:
            raise ConfigurationError(POSTGRES_MISSING) from error
        return PostgresReceipts(url)
    from replayfloor.server.stores.sqlite import SQLiteReceipts
    from replayfloor.server.stores.sqlite_work import path_of

    return SQLiteReceipts(path_of(url))


def _is_postgres(url: str) -> bool:
    """Say which of the two databases it is. Raises ConfigurationError for a third."""
    scheme = url.partition(":")[0]
    if scheme not in ("postgresql", "postgres", "sqlite"):
        raise ConfigurationError(
            f"receipts={scheme!r}…: expected postgresql://user@host/database or sqlite:///path"
        )
    return scheme != "sqlite"
