"""`AsyncGuard`: messages applied once, for consumers on asyncio. What is decided is in the flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Unpack

from starlette.types import Message

from replayfloor.core.errors import UsageError
from replayfloor.core.values import frozen
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow import Admitted, Delivered, admit, fail, period_ms, renew, settle, told
from replayfloor.server.keeper_async import AsyncAlarm, AsyncLeaseKeeper
from replayfloor.server.locks import AsyncLock
from replayfloor.server.once_claim import APPLIED, AsyncMessageClaim
from replayfloor.server.once_errors import AlreadyApplied
from replayfloor.server.once_life import AsyncLife
from replayfloor.server.once_message import MessageOptions, call_of, delivered_of, receipt_of
from replayfloor.server.once_options import GuardOptions, GuardSettings, build_guard
from replayfloor.server.once_outcome import Subject, at_its_beginning, at_its_end
from replayfloor.server.perform_async import AsyncPerformer
from replayfloor.server.perform_common import emit
from replayfloor.server.stores import AsyncReceipts
from replayfloor.server.webhooks.counts import SourceCounts

AsyncMessageHandler = Callable[[AsyncMessageClaim], Awaitable[object]]
"""Applies one message under its claim."""


class AsyncGuard:
    """Apply each message of a queue once: SQS, Kafka, RabbitMQ, NATS, or anything that redelivers.

        guard = AsyncGuard(receipts="postgresql://…", lock="redis://…", retention=policy,
                           effects="atomic")
        async with guard:
            try:
                async with guard.once(message_id, source="payments-queue") as claim:
                    await claim.connection.execute("insert into …")
            except AlreadyApplied:
                pass
            acknowledge the message

    Acknowledge it after the block, never in it: in atomic the effect and the receipt are one commit
    at the end of the block. What other exception than AlreadyApplied comes out says that the
    message is to be delivered again, but for MessageReused (see `replayfloor.server.once`).

    Args:
        receipts: `postgresql://…`, `sqlite:///path`, or a store.
        lock: `"local"`, `redis://…`, or a lock. Its loss never causes a second execution.
        options: see GuardOptions.

    Raises ConfigurationError for options that cannot be honoured, RetentionTooShort among them.
    Nothing is connected before `open`. Any number of tasks of one asyncio event loop may use it.
    """

    def __init__(
        self,
        *,
        receipts: str | AsyncReceipts,
        lock: str | AsyncLock = "local",
        **options: Unpack[GuardOptions],
    ) -> None:
        """See the class."""
        self.settings = build_guard(options)
        self._uses = _Uses(
            self.settings, AsyncLife(self.settings.common, receipts, lock), AsyncAlarm()
        )

    async def open(self) -> None:
        """Connect, and declare the retention to the database; may be called again.

        Raises SchemaMissing, StoreUnavailable; RetentionTooShort if the database was told of a
        longer retention than this one. Nothing is left open then.
        """
        await self._uses.life.open()

    async def close(self) -> None:
        """Give every connection back; blocks that are ending get some seconds for that.

        May be called again, and `open` may follow.
        """
        await self._uses.life.close()

    async def __aenter__(self) -> AsyncGuard:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    @property
    def deliveries(self) -> tuple[SourceCounts, ...]:
        """What each source has delivered to this process."""
        return self.settings.common.counts.report()

    def once(self, message_id: str, **message: Unpack[MessageOptions]) -> AsyncOnce:
        """Return what runs its block if the message was not applied: `async with … as claim:`.

        Args:
            message_id: what every delivery of this message repeats, and no other message of its
                source has. The id that the producer gave it is better than the broker's: a
                producer that sends again, and a move from a dead-letter queue, change the latter.
            message: see MessageOptions; `source` has to be given.

        If the block ends, the message is applied for good. An exception undoes it (in atomic) and
        frees the key, so that the next delivery runs the block again; it passes through. After a
        cancellation in an external block the outcome is unknown.

        Entering raises, instead of running the block: AlreadyApplied, StillInFlight,
        OutcomeNotKnown, MessageReused, StoreUnavailable. Ending raises StillInFlight,
        OutcomeNotKnown or StoreUnavailable where the effect does not stand, or may not. Raises
        UsageError for an id or an option that cannot be used.
        """
        return AsyncOnce(self._uses, delivered_of(message_id, **message))

    async def run(
        self, message_id: str, handler: AsyncMessageHandler, **message: Unpack[MessageOptions]
    ) -> bool:
        """Await `handler(claim)` in such a block; say whether it was run, and so applied now.

        False: the message was applied before, or is past its horizon. Either way it is to be
        acknowledged. Raises the rest of what `once` does, and what the handler raises.
        """
        begun = False
        try:
            async with self.once(message_id, **message) as claim:
                begun = True
                await handler(claim)
        except AlreadyApplied:
            # One that comes out of the handler is of another message.
            if begun:
                raise
            return False
        return True


@frozen
class _Uses:
    """What the blocks of one guard share."""

    settings: GuardSettings
    life: AsyncLife
    alarm: AsyncAlarm


class AsyncOnce:
    """One attempt to apply one message; made by `AsyncGuard.once`."""

    def __init__(self, uses: _Uses, delivered: Delivered) -> None:
        """Take nothing yet."""
        self._uses, self._delivered = uses, delivered
        self._settings, self._options = uses.settings.common, uses.settings.options
        namespace = self._settings.namespace
        self._subject = Subject(
            delivered.source, receipt_of(namespace, delivered), self._options.retention_ms
        )
        self._performer = AsyncPerformer(self._settings, uses.life.stores, {}, _no_request)
        self._is_taken = False
        self._begun: _Begun | None = None

    async def __aenter__(self) -> AsyncMessageClaim:
        """Take the message, or raise why that cannot be; see AsyncGuard.once."""
        if self._is_taken:
            raise UsageError("what `once` returns is for one block: ask it again for another")
        self._is_taken = True
        self._uses.life.require_open()
        self._uses.life.begin()
        try:
            call = call_of(self._settings.namespace, self._delivered)
            admission = await self._performer.drive(admit(call, self._options))
            self._begun = self._begin(at_its_beginning(admission, self._subject))
        except BaseException:
            self._uses.life.end()
            raise
        return self._begun.claim

    def _begin(self, admitted: Admitted) -> _Begun:
        performer, options = self._performer, self._options
        claim = AsyncMessageClaim(
            admitted, options, performer.lease, performer.transaction, performer.finish_in
        )
        keeper = AsyncLeaseKeeper(
            self._uses.alarm,
            period_ms(options) / 1000,
            lambda: performer.drive(renew(admitted, options)),
            claim.lose,
        )
        return _Begun(admitted, claim, keeper)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle it; see AsyncGuard.once."""
        begun, self._begun = self._begun, None
        if begun is None:
            raise UsageError("the block of a message ends once, after it has begun")
        try:
            begun.keeper.stop()
            if self._performer.lease.end():
                emit(self._settings, told(begun.admitted, EventKind.LEASE_LOST))
            await self._settle(begun, error)
        finally:
            self._uses.life.end()

    async def _settle(self, begun: _Begun, error: BaseException | None) -> None:
        admitted, recorded = begun.admitted, begun.claim.recorded
        if error is not None:
            await self._performer.drive_shielded(fail(admitted, self._options, error, recorded))
            return
        captured = Captured(APPLIED, recorded=recorded)
        answer = await self._performer.drive(settle(admitted, captured, self._options))
        at_its_end(answer, self._subject)


@frozen
class _Begun:
    """A block that is being run."""

    admitted: Admitted
    claim: AsyncMessageClaim
    keeper: AsyncLeaseKeeper


async def _no_request() -> Message:
    """Stand where a request would be read from."""
    raise TypeError("a message has no request to be read")
