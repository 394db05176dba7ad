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

from importlib import import_module
from typing import TYPE_CHECKING

from replayfloor.client.catalogue import profile
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
from replayfloor.client.errors import RedirectRefused as RedirectRefused
from replayfloor.client.journal import MemoryJournal, PostgresJournal, SQLiteJournal
from replayfloor.client.options import operation
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile

if TYPE_CHECKING:
    from replayfloor.client.transport import IdempotentTransport
    from replayfloor.client.transport_async import AsyncIdempotentTransport
    from replayfloor.client.wrap_httpx import wrap_client

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
    "PostgresJournal",
    "Profile",
    "RetryPolicy",
    "SQLiteJournal",
    "operation",
    "profile",
    "wrap_client",
]

_OF_HTTPX = {
    "IdempotentTransport": "transport",
    "AsyncIdempotentTransport": "transport_async",
    "wrap_client": "wrap_httpx",
}


def __getattr__(name: str) -> object:
    """Import what needs httpx when it is asked for: with httpx2 alone, httpx is not there."""
    if name not in _OF_HTTPX:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_OF_HTTPX[name]}")
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ImportError(
            f"{name} needs httpx: pip install 'replayfloor[client]'; its twin for httpx2 is in "
            "replayfloor.client.httpx2"
        ) from error
    return getattr(module, name)
