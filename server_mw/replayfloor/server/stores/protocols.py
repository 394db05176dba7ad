"""What a store of receipts can do, in both colours. Contracts only; no SQL, no connection.

The contract of each operation is the docstring of its effect (`replayfloor.core.claims`); the
suite that holds a store to it is `replayfloor.testing.contract`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.fingerprint import ReceiptId

if TYPE_CHECKING:
    from replayfloor.server.stores.policies import Declaration, Declared

Parameters: TypeAlias = Mapping[str, object] | Sequence[object]
Row: TypeAlias = tuple[object, ...]


# -- asynchronous -----------------------------------------------------------------------------


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

    async def declare(self, declaration: Declaration) -> Declared:
        """Note for how long receipts are kept, and say what was noted before; one operation.

        Of any number of declarations at the same time, each is answered as if they came one after
        the other. A shorter retention than the noted one changes nothing unless it is accepted.
        Raises SchemaMissing, StoreUnavailable.
        """
        ...

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncTransaction:
        """Keep the contract of `replayfloor.core.claims.Begin`; in the database of the key.

        Only a store of several databases needs to be told the key.
        """
        ...

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """Finish inside the transaction that is open on the handler's own `connection`.

        Returns whether the claim was still the fence's; the handler commits, and the receipt
        exists if and only if that commit succeeds. Errors of the database pass through. Raises
        UsageError for a connection that this store cannot write through.
        """
        ...


# -- blocking ---------------------------------------------------------------------------------


class Cursor(Protocol):
    """See AsyncCursor."""

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        ...

    def fetchall(self) -> Sequence[Row]:
        """Return the rows that are left."""
        ...


class Connection(Protocol):
    """What `claim.connection` can do at least; on Postgres, all of `psycopg.Connection`."""

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Run one statement inside the transaction of the receipt."""
        ...


class Transaction(Protocol):
    """See AsyncTransaction."""

    @property
    def connection(self) -> Connection:
        """The handler's connection; it refuses to be committed by the handler itself."""
        ...

    def commit(self, finish: Finish) -> bool:
        """Keep the contract of `replayfloor.core.claims.Commit`."""
        ...

    def rollback(self) -> None:
        """Keep the contract of `replayfloor.core.claims.Rollback`; a second call does nothing."""
        ...


class Receipts(Protocol):
    """See AsyncReceipts. Any number of threads may use one at a time; no call blocks without a
    limit: what is not had in time raises StoreUnavailable."""

    def open(self) -> None:
        """Be ready for use; may be called again. Raises SchemaMissing, StoreUnavailable."""
        ...

    def close(self) -> None:
        """Give every connection back; may be called again, and `open` may follow."""
        ...

    def claim(self, claim: Claim) -> ClaimAnswer:
        """Keep the contract of `replayfloor.core.claims.Claim`."""
        ...

    def finish(self, finish: Finish) -> bool:
        """Keep the contract of `replayfloor.core.claims.Finish`."""
        ...

    def abandon(self, abandon: Abandon) -> bool:
        """Keep the contract of `replayfloor.core.claims.Abandon`."""
        ...

    def renew(self, renew: Renew) -> bool:
        """Keep the contract of `replayfloor.core.claims.Renew`."""
        ...

    def declare(self, declaration: Declaration) -> Declared:
        """See AsyncReceipts.declare."""
        ...

    def begin(self, id_: ReceiptId | None = None, /) -> Transaction:
        """Keep the contract of `replayfloor.core.claims.Begin`; in the database of the key.

        Only a store of several databases needs to be told the key.
        """
        ...

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See AsyncReceipts.finish_in."""
        ...
