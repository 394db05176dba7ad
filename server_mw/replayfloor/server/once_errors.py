"""What stands in the way of a message's block, by whose fault. Exceptions only.

    IdempotencyError
    ├── AlreadyApplied        nobody's: acknowledge the message
    │   └── PastHorizon       the broker's or a person's: acknowledged too, and nothing was applied
    ├── StillInFlight         nobody's: leave the message to be delivered again
    ├── OutcomeNotKnown       an execution's that ended without a trace: leave it, or set it aside
    ├── StoreUnavailable      the infrastructure's: leave it (`replayfloor.core.errors`)
    └── UsageError
        └── MessageReused     the sender's: two messages have one id

No text holds the id of a message: it may be a customer's.
"""

from __future__ import annotations

from datetime import timedelta

from replayfloor.core.errors import IdempotencyError, UsageError


class AlreadyApplied(IdempotencyError):
    """The message was applied before, and the block was not run. Acknowledge the message.

    Attributes:
        source: whose message it is, as given to `once`.
        receipt_id: 32 hex digits that name the receipt in logs and events.
        age: how long ago it was applied, by the clock of the receipts' database; None if that was
            not asked, because the lock knew.
    """

    def __init__(self, text: str, source: str, receipt_id: str, age: timedelta | None) -> None:
        """Say which message it is of."""
        super().__init__(text)
        self.source, self.receipt_id, self.age = source, receipt_id, age


class PastHorizon(AlreadyApplied):
    """The message is older than receipts are kept, or was used before and its receipt is gone.

    Whether it was applied cannot be told any more. The block was not run, that is recorded, and
    deliveries that follow raise this too. Acknowledge the message, and look at the state of things.
    """


class StillInFlight(IdempotencyError):
    """Another consumer has the message. Do not acknowledge it: that one may fail.

    Raised at the beginning of a block, which was not run then; and at its end if the claim was
    lost meanwhile. What an atomic block had written was rolled back then.

    Attributes:
        source, receipt_id: as in AlreadyApplied.
        retry_after_s: when to have it delivered again, in whole seconds, at least one.
    """

    def __init__(self, text: str, source: str, receipt_id: str, retry_after_s: int) -> None:
        """Say which message it is of, and when it is worth to look again."""
        super().__init__(text)
        self.source, self.receipt_id, self.retry_after_s = source, receipt_id, retry_after_s


class OutcomeNotKnown(IdempotencyError):
    """Nobody knows whether the message was applied. Do not acknowledge it.

    At the beginning of a block, which was not run: an earlier execution whose writes cannot be
    rolled back (effects="external") was started and ended without a trace. It is not run again
    before that was reconciled (`replayfloor reconcile`). At the end of an atomic block: the answer
    to its commit was lost, and the next delivery tells.

    Attributes:
        source, receipt_id: as in AlreadyApplied.
        retry_after_s: when to have it delivered again, in whole seconds.
    """

    def __init__(self, text: str, source: str, receipt_id: str, retry_after_s: int) -> None:
        """Say which message it is of, and when it is worth to look again."""
        super().__init__(text)
        self.source, self.receipt_id, self.retry_after_s = source, receipt_id, retry_after_s


class MessageReused(UsageError):
    """A message with this id was taken before, and its body was another one. Nothing was run.

    Delivering it again changes nothing: set it aside for a person to look at. Attributes: source
    and receipt_id, as in AlreadyApplied.
    """

    def __init__(self, text: str, source: str, receipt_id: str) -> None:
        """Say which message it is of."""
        super().__init__(text)
        self.source, self.receipt_id = source, receipt_id
