"""The protocol of a framework's receipts: all but the handler's transaction, on its own store."""

from __future__ import annotations

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.stores.policies import Declaration, Declared


class OnReceipts:
    """Blocking receipts but for `begin`, on a store that is given."""

    def __init__(self, receipts: Receipts) -> None:
        """Run the protocol on `receipts`."""
        self._receipts = receipts

    def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        self._receipts.open()

    def close(self) -> None:
        """Give the protocol's connections back; the framework's are the application's."""
        self._receipts.close()

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return self._receipts.claim(claim)

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return self._receipts.finish(finish)

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return self._receipts.abandon(abandon)

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return self._receipts.renew(renew)

    def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.Receipts.declare`."""
        return self._receipts.declare(declaration)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.Receipts.finish_in`."""
        return self._receipts.finish_in(connection, finish)


class AsyncOnReceipts:
    """Asynchronous receipts but for `begin`, on a store that is given."""

    def __init__(self, receipts: AsyncReceipts) -> None:
        """Run the protocol on `receipts`."""
        self._receipts = receipts

    async def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        await self._receipts.open()

    async def close(self) -> None:
        """Give the protocol's connections back; the framework's are the application's."""
        await self._receipts.close()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return await self._receipts.claim(claim)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return await self._receipts.finish(finish)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return await self._receipts.abandon(abandon)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return await self._receipts.renew(renew)

    async def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.AsyncReceipts.declare`."""
        return await self._receipts.declare(declaration)

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.AsyncReceipts.finish_in`."""
        return await self._receipts.finish_in(connection, finish)
