"""Receipts that tell their database for how long they are kept, before the first claim.

A shorter retention than the noted one is refused where the store is opened. A database that is
away then is told when it is back: no key is claimed before.
"""

from __future__ import annotations

from collections.abc import Callable

from replayfloor.core.claims import Claim, ClaimAnswer
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.retention import RetentionTooShort
from replayfloor.server.adapters.protocol import AsyncOnReceipts, OnReceipts
from replayfloor.server.declared import change_in_words, refuse_shorter
from replayfloor.server.stores import AsyncReceipts, AsyncTransaction, Receipts, Transaction
from replayfloor.server.stores.policies import Declaration, Declared

OnChange = Callable[[str], None]
"""Told in words what a declaration has changed."""


class DeclaringReceipts(OnReceipts):
    """A blocking store with a retention to declare. Any number of threads may use it."""

    def __init__(self, receipts: Receipts, declaration: Declaration, on_change: OnChange) -> None:
        """Declare nothing yet."""
        super().__init__(receipts)
        self._declaration, self._on_change = declaration, on_change
        self._noted = False

    def open(self) -> None:
        """Open and declare. Raises RetentionTooShort too."""
        super().open()
        try:
            self._declare()
        except RetentionTooShort:
            self.close()
            raise

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`. Raises RetentionTooShort too."""
        if not self._noted:
            # Several threads may be here at once: to declare twice changes nothing.
            try:
                self._declare()
            except StoreUnavailable as error:
                error.performed = False  # nothing was claimed
                raise
        return super().claim(claim)

    def begin(self, id_: ReceiptId | None = None, /) -> Transaction:
        """See `replayfloor.core.claims.Begin`."""
        return self._receipts.begin(id_)

    def _declare(self) -> None:
        declared = self._receipts.declare(self._declaration)
        _judge(self._declaration, declared, self._on_change)
        self._noted = True


class AsyncDeclaringReceipts(AsyncOnReceipts):
    """An asynchronous store with a retention to declare. Any number of tasks may use it."""

    def __init__(
        self, receipts: AsyncReceipts, declaration: Declaration, on_change: OnChange
    ) -> None:
        """Declare nothing yet."""
        super().__init__(receipts)
        self._declaration, self._on_change = declaration, on_change
        self._noted = False

    async def open(self) -> None:
        """Open and declare. Raises RetentionTooShort too."""
        await super().open()
        try:
            await self._declare()
        except RetentionTooShort:
            await self.close()
            raise

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`. Raises RetentionTooShort too."""
        if not self._noted:
            # Several tasks may be here at once: to declare twice changes nothing.
            try:
                await self._declare()
            except StoreUnavailable as error:
                error.performed = False  # nothing was claimed
                raise
        return await super().claim(claim)

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return await self._receipts.begin(id_)

    async def _declare(self) -> None:
        declared = await self._receipts.declare(self._declaration)
        _judge(self._declaration, declared, self._on_change)
        self._noted = True


def _judge(declaration: Declaration, declared: Declared, on_change: OnChange) -> None:
    refuse_shorter(declaration, declared)
    changed = change_in_words(declaration, declared)
    if changed is not None:
        on_change(changed)
