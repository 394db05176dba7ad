"""The life of the stores that a guard uses: opened, declared to, maintained, closed. No message."""

from __future__ import annotations

import anyio

from replayfloor.core.errors import UsageError
from replayfloor.server.declaring import AsyncDeclaringReceipts, DeclaringReceipts
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.locks import AsyncLock, Lock, open_async_lock, open_lock
from replayfloor.server.maintenance import AsyncMaintenance
from replayfloor.server.perform import Stores
from replayfloor.server.perform_async import CLEANUP_S, AsyncStores
from replayfloor.server.perform_common import emit
from replayfloor.server.settings import Settings, instance
from replayfloor.server.settings import Stores as AnyStores
from replayfloor.server.shield import to_the_end
from replayfloor.server.stores import AsyncReceipts, Receipts, open_async_receipts, open_receipts

CLOSED = "the guard is not open: enter it (`with guard:`, `async with guard:`), or call open()"


class AsyncLife:
    """The stores of one guard, and who uses them at the moment. Belongs to one event loop."""

    def __init__(
        self, settings: Settings, receipts: str | AsyncReceipts, lock: str | AsyncLock
    ) -> None:
        """Connect nothing. Raises ConfigurationError for stores that are none."""
        self._settings = settings
        made = instance("receipts", receipts, "claim", open_async_receipts)
        if settings.declaration is not None:
            made = AsyncDeclaringReceipts(made, settings.declaration, self._tell_change)
        self.stores: AsyncStores = AnyStores(
            made, instance("lock", lock, "acquire", open_async_lock)
        )
        maintain = settings.maintain
        self._maintenance = (
            None if maintain is None else AsyncMaintenance(maintain.of(receipts, settings.on_event))
        )
        self._is_open = False
        self._under_way = 0
        self._settled: anyio.Event | None = None

    def _tell_change(self, words: str) -> None:
        emit(self._settings, ServerEvent(EventKind.POLICY_CHANGED, "", words))

    async def open(self) -> None:
        """See AsyncGuard.open."""
        try:
            await self.stores.receipts.open()
        except BaseException:
            await to_the_end(self._close_stores)
            raise
        self._is_open = True
        await self.maintain()

    async def maintain(self) -> None:
        """Begin to make partitions and to drop what has expired, if that was asked for."""
        if self._maintenance is not None:
            await self._maintenance.start()

    async def close(self) -> None:
        """See AsyncGuard.close."""
        self._is_open = False
        await to_the_end(self._close)

    async def _close(self) -> None:
        # A task that was cancelled may still be settling its message. Without the stores it would
        # leave the message's key taken.
        if self._under_way:
            self._settled = anyio.Event()
            with anyio.move_on_after(CLEANUP_S):
                await self._settled.wait()
        if self._maintenance is not None:
            await self._maintenance.stop()
        await self._close_stores()

    async def _close_stores(self) -> None:
        await self.stores.lock.close()
        await self.stores.receipts.close()

    def require_open(self) -> None:
        """Raise UsageError if the stores are closed."""
        if not self._is_open:
            raise UsageError(CLOSED)

    def begin(self) -> None:
        """Note that a message begins to use the stores."""
        self._under_way += 1

    def end(self) -> None:
        """Note that it does so no more."""
        self._under_way -= 1
        if self._settled is not None and not self._under_way:
            self._settled.set()


class Life:
    """The same for threads: of one process, and of those that it forks."""

    def __init__(self, settings: Settings, receipts: str | Receipts, lock: str | Lock) -> None:
        """Connect nothing. Raises ConfigurationError for stores that are none."""
        self._settings = settings
        made = instance("receipts", receipts, "claim", open_receipts, blocks=True)
        if settings.declaration is not None:
            made = DeclaringReceipts(made, settings.declaration, self._tell_change)
        self.stores: Stores = AnyStores(
            made, instance("lock", lock, "acquire", open_lock, blocks=True)
        )
        maintain = settings.maintain
        self._maintenance = None if maintain is None else maintain.of(receipts, settings.on_event)
        self._is_open = False

    def _tell_change(self, words: str) -> None:
        emit(self._settings, ServerEvent(EventKind.POLICY_CHANGED, "", words))

    def open(self) -> None:
        """See Guard.open."""
        try:
            self.stores.receipts.open()
        except BaseException:
            self._close_stores()
            raise
        self._is_open = True
        self.maintain()

    def maintain(self) -> None:
        """See AsyncLife.maintain; in this process, since a thread does not outlive a fork."""
        if self._maintenance is not None:
            self._maintenance.start()

    def close(self) -> None:
        """See Guard.close."""
        self._is_open = False
        if self._maintenance is not None:
            self._maintenance.stop()
        self._close_stores()

    def _close_stores(self) -> None:
        self.stores.lock.close()
        self.stores.receipts.close()

    def require_open(self) -> None:
        """Raise UsageError if the stores are closed."""
        if not self._is_open:
            raise UsageError(CLOSED)
