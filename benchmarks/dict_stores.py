"""A lock and receipts in dictionaries, for counting what the middleware itself does.

They answer at once and cost next to nothing, so a count is of the same instructions every time.
They keep the contract only as far as the counted requests ask for it.
"""

from __future__ import annotations

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Acquired,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Extend,
    Finish,
    Finished,
    Held,
    LockAnswer,
    Release,
    Renew,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores.policies import Declaration, Declared
from replayfloor.server.stores.protocols import AsyncTransaction


class DictLock:
    """Who holds a key, and the receipts of those that have ended."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._held: dict[ReceiptId, Acquire] = {}
        self._kept: dict[ReceiptId, Receipt] = {}

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        if acquire.id in self._kept:
            return Cached(self._kept[acquire.id])
        held = self._held.setdefault(acquire.id, acquire)
        return Acquired() if held is acquire else Held(held.fingerprint, held.lease_ms)

    async def release(self, release: Release) -> bool:
        """See `replayfloor.core.claims.Release`."""
        if release.receipt is not None:
            self._kept[release.id] = release.receipt
        return self._held.pop(release.id, None) is not None

    async def release_soon(self, release: Release) -> None:
        """See `replayfloor.server.locks.AsyncLock.release_soon`."""
        if release.receipt is not None:
            self._kept[release.id] = release.receipt
        self._held.pop(release.id, None)

    async def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        return extend.id in self._held

    async def close(self) -> None:
        """Nothing is connected."""


class DictReceipts:
    """Receipts by their id."""

    def __init__(self) -> None:
        """Keep nothing."""
        self._receipts: dict[ReceiptId, Receipt] = {}

    async def open(self) -> None:
        """Nothing is connected."""

    async def close(self) -> None:
        """Nothing is connected."""

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        receipt = self._receipts.get(claim.id)
        return Claimed() if receipt is None else Finished(receipt)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        self._receipts[finish.id] = finish.receipt
        return True

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return True

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return True

    async def declare(self, declaration: Declaration) -> Declared:
        """Not asked for."""
        raise AssertionError("no counted request asks for this")

    async def begin(self, _id: ReceiptId | None = None, /) -> AsyncTransaction:
        """Not asked for."""
        raise AssertionError("no counted request asks for this")

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """Not asked for."""
        raise AssertionError("no counted request asks for this")
