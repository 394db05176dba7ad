"""What a handler sees of its claim, at `request.state.idempotency`."""

from __future__ import annotations

from replayfloor.core.errors import UsageError
from replayfloor.server.flow import Admitted
from replayfloor.server.stores import AsyncConnection, AsyncTransaction


class AsyncActiveClaim:
    """The claim under which the handler runs.

    Attributes:
        id: 32 hex digits that name the receipt in logs and events; not the key.
        taken_over: whether an earlier execution died under this key. What it did in an atomic
            route was rolled back.
        lost: whether the lease could not be kept, so that another execution may have the key. In
            an atomic route the commit will be refused; an external handler should stop before its
            next effect. It stays False while nobody can tell.
    """

    __slots__ = ("_transaction", "id", "lost", "taken_over")

    def __init__(self, admitted: Admitted, transaction: AsyncTransaction | None) -> None:
        """Show an admission; `transaction` is open in atomic routes and None in others."""
        self.id = admitted.id.hex()
        self.taken_over = admitted.taken_over
        self.lost = False
        self._transaction = transaction

    def lose(self) -> None:
        """Note that the claim may be another's by now; called by the middleware."""
        self.lost = True

    @property
    def connection(self) -> AsyncConnection:
        """The connection to write through in an atomic route.

        It is inside the transaction that ends with the receipt: `await connection.execute(…)`,
        never commit. On Postgres it has everything that a `psycopg.AsyncConnection` has. Raises
        UsageError in other routes, and once the answer is complete.
        """
        if self._transaction is None:
            raise UsageError('claim.connection exists in routes with effects="atomic" only')
        return self._transaction.connection
