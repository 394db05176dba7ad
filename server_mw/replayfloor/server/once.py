"""Messages applied once, without HTTP: the public names, and what to do about each exception.

the block ended, or AlreadyApplied   acknowledge the message
StillInFlight, StoreUnavailable,     do not; it comes again
OutcomeNotKnown                      do not; it comes again until it was reconciled
MessageReused                        set it aside: two messages have one id
anything that the block raised       as without us: it comes again
"""

from __future__ import annotations

from replayfloor.server.once_async import AsyncGuard, AsyncOnce
from replayfloor.server.once_claim import AsyncMessageClaim, MessageClaim
from replayfloor.server.once_errors import (
    AlreadyApplied,
    MessageReused,
    OutcomeNotKnown,
    PastHorizon,
    StillInFlight,
)
from replayfloor.server.once_message import MessageOptions
from replayfloor.server.once_options import GuardOptions
from replayfloor.server.once_threads import Guard, Once

__all__ = [
    "AlreadyApplied",
    "AsyncGuard",
    "AsyncMessageClaim",
    "AsyncOnce",
    "Guard",
    "GuardOptions",
    "MessageClaim",
    "MessageOptions",
    "MessageReused",
    "Once",
    "OutcomeNotKnown",
    "PastHorizon",
    "StillInFlight",
]
