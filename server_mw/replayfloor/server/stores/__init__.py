"""Where receipts live: the contract, and how a URL becomes a store. No SQL here.

The contract of each operation is the docstring of its effect (`replayfloor.core.claims`); the
suite that holds a store to it is `replayfloor.testing.contract`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError

Parameters: TypeAlias = Mapping[str, object] | Sequence[object]
Row: TypeAlias = tuple[object, ...]


class AsyncCursor(Protocol):
    """The result of one statement, as far as both databases offer it alike."""

    async def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        ...

    async def fetchall(self) -> Sequence[Row]:
        """Return the rows that are left."""
        ...


class AsyncConnection(Protocol):
    """What `claim.connection` can do at least; on Postgres, all of `psycopg.AsyncConnection`."""

    async def execute(self, query: str, params: Parameters | None = None) -> AsyncCursor:
        """Run one statement inside the transaction of the receipt."""
        ...


class AsyncTransaction(Protocol):
    """The transaction a handler writes in; it ends with the first `commit` or `rollback`."""

    @property
    def connection(self) -> AsyncConnection:
        """The handler's connection; it refuses to be committed by the handler itself."""
        ...

    async def commit(self, finish: Finish) -> bool:
        """Keep the contract of `replayfloor.core.claims.Commit`."""
        ...

    async def rollback(self) -> None:
        """Keep the contract of `replayfloor.core.claims.Rollback`; a second call does nothing."""
        ...


class AsyncReceipts(Protocol):
    """A durable store of claims and receipts. Any number of tasks may use one at a time."""

    async def open(self) -> None:
        """Be ready for use; may be called again.

        Raises SchemaMissing if the database has not been migrated, StoreUnavailable if it does
        not answer.
        """
        ...

    async def close(self) -> None:
        """Give every connection back; may be called again, and `open` may follow."""
        ...

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """Keep the contract of `replayfloor.core.claims.Claim`."""
        ...

    async def finish(self, finish: Finish) -> bool:
        """Keep the contract of `replayfloor.core.claims.Finish`."""
        ...

    async def abandon(self, abandon: Abandon) -> bool:
        """Keep the contract of `replayfloor.core.claims.Abandon`."""
        ...

    async def renew(self, renew: Renew) -> bool:
        """Keep the contract of `replayfloor.core.claims.Renew`."""
        ...

    async def begin(self) -> AsyncTransaction:
        """Keep the contract of `replayfloor.core.claims.Begin`."""
        ...


def open_receipts(url: str) -> AsyncReceipts:
    """Return the store of a URL: `postgresql://…` or `sqlite:///path/to/file`.

    Nothing is connected yet. Raises ConfigurationError for any other URL, or if the driver of a
    known one is not installed.
    """
    scheme = url.partition(":")[0]
    if scheme in ("postgresql", "postgres"):
        try:
            from replayfloor.server.stores.postgres import AsyncPostgresReceipts
        except ImportError as error:
            raise ConfigurationError(
                "receipts in Postgres need psycopg: install replayfloor[server]"
            ) from error
        return AsyncPostgresReceipts(url)
    if scheme == "sqlite":
        from replayfloor.server.stores.sqlite import AsyncSQLiteReceipts, path_of

        return AsyncSQLiteReceipts(path_of(url))
    raise ConfigurationError(
        f"receipts={scheme!r}…: expected postgresql://user@host/database or sqlite:///path"
    )
