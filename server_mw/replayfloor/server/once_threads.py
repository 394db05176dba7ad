"""`Guard`: messages applied once, for consumers in threads. What is decided is in the flow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Unpack

from replayfloor.core.errors import UsageError
from replayfloor.core.values import frozen
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow import Admitted, Delivered, admit, fail, period_ms, renew, settle, told
from replayfloor.server.keeper import Alarm, LeaseKeeper
from replayfloor.server.locks import Lock
from replayfloor.server.once_claim import APPLIED, MessageClaim
from replayfloor.server.once_errors import AlreadyApplied
from replayfloor.server.once_life import Life
from replayfloor.server.once_message import MessageOptions, call_of, delivered_of, receipt_of
from replayfloor.server.once_options import GuardOptions, GuardSettings, build_guard
from replayfloor.server.once_outcome import Subject, at_its_beginning, at_its_end
from replayfloor.server.perform import Performer
from replayfloor.server.perform_common import emit
from replayfloor.server.stores import Receipts
from replayfloor.server.webhooks.counts import SourceCounts

MessageHandler = Callable[[MessageClaim], object]
"""Applies one message under its claim."""


class Guard:
    """Apply each message of a queue once; the blocking twin of AsyncGuard, see there.

        with guard:
            try:
                with guard.once(message_id, source="payments-queue") as claim:
                    claim.connection.execute("insert into …")
            except AlreadyApplied:
                pass
            acknowledge the message

    Args:
        receipts: `postgresql://…`, `sqlite:///path`, or a store.
        lock: `"local"`, `redis://…`, or a lock. Its loss never causes a second execution.
        options: see GuardOptions.

    Raises ConfigurationError for options that cannot be honoured, RetentionTooShort among them.
    Any number of threads may use it. After a fork the child connects anew; call `open` there too if
    it is the one to do the maintenance.
    """

    def __init__(
        self,
        *,
        receipts: str | Receipts,
        lock: str | Lock = "local",
        **options: Unpack[GuardOptions],
    ) -> None:
        """See the class."""
        self.settings = build_guard(options)
        self._uses = _Uses(self.settings, Life(self.settings.common, receipts, lock), Alarm())

    def open(self) -> None:
        """Connect, and declare the retention to the database; may be called again.

        Raises SchemaMissing, StoreUnavailable; RetentionTooShort if the database was told of a
        longer retention than this one. Nothing is left open then.
        """
        self._uses.life.open()

    def close(self) -> None:
        """Give every connection back; to be called when no thread is in a block.

        May be called again, and `open` may follow.
        """
        self._uses.life.close()

    def __enter__(self) -> Guard:
        """Open it."""
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @property
    def deliveries(self) -> tuple[SourceCounts, ...]:
        """What each source has delivered to this process."""
        return self.settings.common.counts.report()

    def once(self, message_id: str, **message: Unpack[MessageOptions]) -> Once:
        """Return what runs its block if the message was not applied: `with … as claim:`.

        See AsyncGuard.once for the arguments and what is raised. What stops a thread in an external
        block without an Exception (KeyboardInterrupt, SystemExit) leaves the outcome unknown.
        """
        return Once(self._uses, delivered_of(message_id, **message))

    def run(
        self, message_id: str, handler: MessageHandler, **message: Unpack[MessageOptions]
    ) -> bool:
        """Call `handler(claim)` in such a block; say whether it was run, and so applied now.

        False: the message was applied before, or is past its horizon. Either way it is to be
        acknowledged. Raises the rest of what `once` does, and what the handler raises.
        """
        begun = False
        try:
            with self.once(message_id, **message) as claim:
                begun = True
                handler(claim)
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
    life: Life
    alarm: Alarm


class Once:
    """One attempt to apply one message; made by `Guard.once`."""

    def __init__(self, uses: _Uses, delivered: Delivered) -> None:
        """Take nothing yet."""
        self._uses, self._delivered = uses, delivered
        self._settings, self._options = uses.settings.common, uses.settings.options
        namespace = self._settings.namespace
        self._subject = Subject(
            delivered.source, receipt_of(namespace, delivered), self._options.retention_ms
        )
        self._performer = Performer(self._settings, uses.life.stores)
        self._is_taken = False
        self._begun: _Begun | None = None

    def __enter__(self) -> MessageClaim:
        """Take the message, or raise why that cannot be; see AsyncGuard.once."""
        if self._is_taken:
            raise UsageError("what `once` returns is for one block: ask it again for another")
        self._is_taken = True
        self._uses.life.require_open()
        call = call_of(self._settings.namespace, self._delivered)
        admission = self._performer.drive(admit(call, self._options))
        self._begun = self._begin(at_its_beginning(admission, self._subject))
        return self._begun.claim

    def _begin(self, admitted: Admitted) -> _Begun:
        performer, options = self._performer, self._options
        claim = MessageClaim(
            admitted, options, performer.lease, performer.transaction, performer.finish_in
        )

        def renewing(stopped: threading.Event) -> None:
            performer.drive_until(stopped, renew(admitted, options))

        first_s = period_ms(options) / 1000
        keeper = LeaseKeeper(self._uses.alarm, first_s, renewing, claim.lose)
        return _Begun(admitted, claim, keeper)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle it; see AsyncGuard.once."""
        begun, self._begun = self._begun, None
        if begun is None:
            raise UsageError("the block of a message ends once, after it has begun")
        begun.keeper.stop()
        if self._performer.lease.end():
            emit(self._settings, told(begun.admitted, EventKind.LEASE_LOST))
        admitted, recorded = begun.admitted, begun.claim.recorded
        if error is not None:
            self._performer.drive(fail(admitted, self._options, error, recorded))
            return
        captured = Captured(APPLIED, recorded=recorded)
        answer = self._performer.drive(settle(admitted, captured, self._options))
        at_its_end(answer, self._subject)


@frozen
class _Begun:
    """A block that is being run."""

    admitted: Admitted
    claim: MessageClaim
    keeper: LeaseKeeper
