"""The simulated world as stores, so that the contract suite can be run on it too."""

from __future__ import annotations

from collections.abc import Sequence

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Claim,
    ClaimAnswer,
    Extend,
    Finish,
    LockAnswer,
    Release,
    Renew,
)
from replayfloor.core.errors import ClaimLost, UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncConnection, AsyncCursor, Parameters, Row
from replayfloor.server.stores.policies import Declaration, Declared, PolicyState
from replayfloor.testing.world import World


class SimulatedLock:
    """The world's lock in the shape of `replayfloor.server.AsyncLock`."""

    def __init__(self, world: World) -> None:
        """Share `world` with whoever else uses it."""
        self._world = world

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        return self._world.acquire(acquire)

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        return self._world.release(release)

    async def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`; it is done at once."""
        self._world.release(release)

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return self._world.extend(extend)

    async def close(self) -> None:
        """Nothing is connected."""


class SimulatedReceipts:
    """The world's receipts in the shape of `replayfloor.server.AsyncReceipts`."""

    def __init__(self, world: World) -> None:
        """Share `world` with whoever else uses it."""
        self._world = world

    async def open(self) -> None:
        """Nothing is connected."""

    async def close(self) -> None:
        """Nothing is connected."""

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return self._world.claim(claim)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return self._world.finish(finish)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return self._world.abandon(abandon)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return self._world.renew(renew)

    async def declare(self, declaration: Declaration) -> Declared:
        """Take every declaration for the first: a world has nothing that outlives a deployment."""
        return Declared(PolicyState.FIRST)

    async def begin(self, _id: ReceiptId | None = None, /) -> SimulatedTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return SimulatedTransaction(self._world)

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
        if not isinstance(connection, OwnSimulatedConnection):
            raise UsageError("cannot finish in this; usable: OwnSimulatedConnection")
        return connection.finish(finish)


class OwnSimulatedConnection:
    """A handler's own connection to the world: effects and receipts come with its commit."""

    def __init__(self, world: World, *, autocommit: bool = False) -> None:
        """Begin a transaction; with `autocommit`, there is none."""
        self._world, self._autocommit = world, autocommit
        self._pending: list[ReceiptId] = []
        self._finishes: list[Finish] = []

    def write(self, id_: ReceiptId) -> None:
        """Add an effect to the transaction."""
        self._pending.append(id_)

    def finish(self, finish: Finish) -> bool:
        """Add a receipt to the transaction, if the claim is the fence's; say whether it was."""
        if self._autocommit:
            raise UsageError("the connection is in autocommit mode")
        mine = self._world.is_mine(finish.id, finish.fence)
        if mine:
            self._finishes.append(finish)
        return mine

    def commit(self) -> None:
        """Let everything appear.

        Raises ClaimLost, and lets nothing appear, if a claim went since; a database would have
        made whoever takes it over wait for this commit.
        """
        finishes, effects = self._finishes, self._pending
        self.rollback()
        if not all(self._world.is_mine(each.id, each.fence) for each in finishes):
            raise ClaimLost("the claim was taken over before the commit")
        for finish in finishes:
            self._world.finish(finish)
        self._world.ledger += effects

    def rollback(self) -> None:
        """Forget everything since the last commit."""
        self._pending, self._finishes = [], []


class SimulatedTransaction:
    """Effects that reach the world's ledger with the receipt, or not at all."""

    def __init__(self, world: World) -> None:
        """Hold nothing yet."""
        self._world = world
        self._pending: list[ReceiptId] = []
        self._ended = False

    def write(self, id_: ReceiptId) -> None:
        """Add an effect to the transaction."""
        self._pending.append(id_)

    @property
    def connection(self) -> AsyncConnection:
        """An object whose only statement is `ledger`, with the id as its parameter."""
        if self._ended:
            raise UsageError("the claim's transaction has ended; nothing can be written any more")
        return _LedgerConnection(self)

    async def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        self._ended = True
        if not self._world.finish(finish):
            return False
        self._world.ledger += self._pending
        return True

    async def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`."""
        self._ended = True


class _LedgerConnection:
    def __init__(self, transaction: SimulatedTransaction) -> None:
        self._transaction = transaction

    async def execute(self, query: str, params: Parameters | None = None) -> AsyncCursor:
        if query != "ledger" or not isinstance(params, Sequence):
            raise UsageError("the simulated world knows one statement: ledger")
        self._transaction.write(ReceiptId(bytes(params[0])))  # type: ignore[call-overload]
        return _NoRows()


class _NoRows:
    async def fetchone(self) -> Row | None:
        return None

    async def fetchall(self) -> Sequence[Row]:
        return ()
