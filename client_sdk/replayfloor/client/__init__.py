"""httpx transports that send a write with one key until its outcome is known, and never too late.

    transport = IdempotentTransport(
        profile=Profile(name="payments", retention_s=84 * 3600),  # what the provider publishes
        journal=SQLiteJournal("outbound.db"),
    )
    with httpx.Client(transport=transport) as client:
        client.post(url, json=…, extensions={"idempotency": {"operation_id": "invoice-123"}})

The key and the moment of the first attempt are in the journal before the first byte leaves, so
that the same operation id continues after a restart, with the same key and the same send deadline.
"""

from replayfloor.client.conclusions import OperationInfo
from replayfloor.client.errors import (
    BodyNotReplayable,
    JournalUnavailable,
    KeyReuseMismatch,
    OperationClosed,
    OutcomePending,
    OutcomeUndetermined,
    OutcomeUnknown,
)
from replayfloor.client.journal import MemoryJournal, SQLiteJournal
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.transport import IdempotentTransport
from replayfloor.client.transport_async import AsyncIdempotentTransport

__all__ = [
    "AsyncIdempotentTransport",
    "BodyNotReplayable",
    "IdempotentTransport",
    "JournalUnavailable",
    "KeyReuseMismatch",
    "MemoryJournal",
    "OperationClosed",
    "OperationInfo",
    "OutcomePending",
    "OutcomeUndetermined",
    "OutcomeUnknown",
    "Profile",
    "RetryPolicy",
    "SQLiteJournal",
]
