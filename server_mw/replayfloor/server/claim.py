"""What a handler sees of its claim: `request.state.idempotency`, `environ["replayfloor.claim"]`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from replayfloor.core.claims import Finish
from replayfloor.core.derived import derived_key
from replayfloor.core.errors import ClaimLost, UsageError
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.flow import Admitted
from replayfloor.server.lease import Lease
from replayfloor.server.policy import Effects, Options
from replayfloor.server.responses import to_response
from replayfloor.server.stores import AsyncConnection, AsyncTransaction, Connection, Transaction


class BaseClaim:
    """What both kinds of claim show.

    Attributes:
        id: 32 hex digits that name the receipt in logs and events; not the key.
        taken_over: whether an earlier execution died under this key. What it did in an atomic
            route was rolled back.
        age: how long ago the key was made or first sent, as the key or its sender tells, by the
            clock of whoever made it; None if neither does.
        past_horizon: whether this may be a repetition of an operation whose receipt is gone: the
            key was used before, or is older than receipts are kept. Only in routes with
            `after_expiry="handler"`; look at the state of things instead of acting.
    """

    __slots__ = (
        "_admitted",
        "_lease",
        "_options",
        "age",
        "id",
        "past_horizon",
        "recorded",
        "taken_over",
    )

    def __init__(self, admitted: Admitted, options: Options, lease: Lease) -> None:
        """Show an admission; `lease` has begun."""
        self._admitted, self._options, self._lease = admitted, options, lease
        self.id = admitted.id.hex()
        self.taken_over = admitted.taken_over
        age_ms = admitted.age_ms
        self.age = None if age_ms is None else timedelta(milliseconds=age_ms)
        self.past_horizon = admitted.past_horizon
        self.recorded: Receipt | None = None

    @property
    def lost(self) -> bool:
        """Whether the lease could not be kept, so that another execution may have the key.

        In an atomic route the commit will be refused; any other handler should stop before its
        next effect. It is true as soon as the lease has run out without a renewal, also while the
        store does not answer.
        """
        return self._lease.over

    def lose(self) -> None:
        """Note that the claim may be another's by now; called by the middleware."""
        self._lease.lose()

    def derived_key(self, name: str) -> str:
        """Return the key to send with the call `name` to another service.

        32 characters of [0-9a-f], the same after a takeover and in a reconciler, so that the
        other service recognises a call that is repeated. Raises UsageError for an empty name.
        """
        return derived_key(self._admitted.id, name)

    def _receipt(self, response: object) -> Receipt:
        if self._options.effects is Effects.ATOMIC:
            raise UsageError(
                'with effects="atomic" the receipt is finished for you, in the same commit; write '
                "through claim.connection"
            )
        if self.recorded is not None:
            raise UsageError("finish_in was called before: a key has one receipt")
        answer = to_response(response)
        if self._options.until_success and not 200 <= answer.status < 300:
            raise UsageError(
                f"an answer with status {answer.status} is no receipt here: only a 2xx is stored, "
                "and anything else is delivered again; roll back, and return it without finish_in"
            )
        return keep(self._admitted.fingerprint, answer, sensitive=self._options.sensitive)

    def _finish(self, receipt: Receipt) -> Finish:
        return Finish(self._admitted.id, self._admitted.fence, receipt)

    def _note(self, receipt: Receipt, *, finished: bool) -> None:
        if not finished:
            self._lease.lose()
            raise ClaimLost(
                "another execution has this key by now: roll your transaction back, the answer "
                "that counts is the other's"
            )
        self.recorded = receipt


AsyncFinishIn = Callable[[object, Finish], Awaitable[bool]]
FinishIn = Callable[[object, Finish], bool]


class AsyncActiveClaim(BaseClaim):
    """The claim under which a handler runs in an ASGI application."""

    __slots__ = ("_finish_in", "_transaction")

    def __init__(
        self,
        admitted: Admitted,
        options: Options,
        lease: Lease,
        transaction: AsyncTransaction | None,
        finish_in: AsyncFinishIn,
    ) -> None:
        """Show an admission; `transaction` is open in atomic routes and None in others."""
        super().__init__(admitted, options, lease)
        self._transaction, self._finish_in = transaction, finish_in

    @property
    def connection(self) -> AsyncConnection:
        """The connection to write through in an atomic route.

        It is inside the transaction that ends with the receipt: `await connection.execute(…)`,
        never commit. On Postgres it has everything that a `psycopg.AsyncConnection` has. Raises
        UsageError in other routes, and once the answer is complete.
        """
        if self._transaction is None:
            raise UsageError(NOT_ATOMIC)
        return self._transaction.connection

    async def finish_in(self, connection: object, response: object) -> None:
        """Write the receipt in the handler's own open transaction, which the handler commits.

        `connection` is one to the database of the receipts, with a transaction open: psycopg, or a
        connection or session of SQLAlchemy. `response` is the answer that the handler goes on to
        return, complete: of Starlette or FastAPI, a `replayfloor.core` Response, or (status,
        headers, body). Commit before you return it.

        Raises ClaimLost if another execution has the key: roll back. Raises UsageError in an
        atomic route, for a second call, and for a connection or answer that cannot be used.
        """
        receipt = self._receipt(response)
        finished = await self._finish_in(connection, self._finish(receipt))
        self._note(receipt, finished=finished)


class ActiveClaim(BaseClaim):
    """The claim under which a handler runs in a WSGI application."""

    __slots__ = ("_finish_in", "_transaction")

    def __init__(
        self,
        admitted: Admitted,
        options: Options,
        lease: Lease,
        transaction: Transaction | None,
        finish_in: FinishIn,
    ) -> None:
        """Show an admission; `transaction` is open in atomic routes and None in others."""
        super().__init__(admitted, options, lease)
        self._transaction, self._finish_in = transaction, finish_in

    @property
    def connection(self) -> Connection:
        """The connection to write through in an atomic route: `connection.execute(…)`.

        On Postgres it has everything that a `psycopg.Connection` has. See AsyncActiveClaim.
        """
        if self._transaction is None:
            raise UsageError(NOT_ATOMIC)
        return self._transaction.connection

    def finish_in(self, connection: object, response: object) -> None:
        """Write the receipt in the handler's own open transaction, which the handler commits.

        `connection` is one to the database of the receipts: psycopg, sqlite3, a connection or
        session of SQLAlchemy, or `django.db.connection`. See AsyncActiveClaim.finish_in.
        """
        receipt = self._receipt(response)
        finished = self._finish_in(connection, self._finish(receipt))
        self._note(receipt, finished=finished)


NOT_ATOMIC = 'claim.connection exists with effects="atomic" only'
