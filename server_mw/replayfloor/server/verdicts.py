"""What a reconciler is asked, and what it may answer. Values only.

A reconciler is the user's: only they can find out whether a payment was made. It is asked about
one orphan at a time, after the orphan was taken over, so that nobody else settles it meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from replayfloor.core.derived import derived_key
from replayfloor.core.effects import Effect
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint, ReceiptId

ASK_AGAIN_S_MAX = 3600.0
"""While an orphan waits to be asked about again, nobody can settle it, also not by hand. Who has
found out should not have to wait for longer than an hour."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A key whose execution ended without a trace.

    Attributes:
        id: 32 hex digits; what `claim.id` was in the handler, and `receipt_id` is in events.
        claimed_at: when the execution began, by the clock of the receipts' database.
        orphaned_since: when its lease ran out, or when a reconciler last gave it back.
        fingerprint: which request it was; needed to settle it, and not to be asked about it.
    """

    id: str
    claimed_at: datetime
    orphaned_since: datetime
    fingerprint: Fingerprint = field(default=Fingerprint(bytes(DIGEST_BYTES)), repr=False)

    @property
    def receipt_id(self) -> ReceiptId:
        """The id as the stores have it, 16 bytes."""
        return ReceiptId(bytes.fromhex(self.id))

    def derived_key(self, name: str) -> str:
        """Return what `claim.derived_key(name)` returned in the handler.

        Raises UsageError for an empty name.
        """
        return derived_key(self.receipt_id, name)


@dataclass(frozen=True, slots=True)
class Applied:
    """The operation was carried out; `response` is what its caller should have been told.

    It is stored as the key's receipt, and every retry is answered with it. Anything that
    `replayfloor.server.responses.to_response` takes: a complete response of Starlette, FastAPI,
    Flask or Django, or (status, headers, body). Of a `sensitive` answer only the status and the
    Location are stored, as on a route that says sensitive=True.
    """

    response: object
    sensitive: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The operation was not carried out, and cannot be any more: the key is freed for a retry.

    That nothing is there *yet* is not enough. An execution that only stands still (a stopped
    process, a request on its way to the provider) may go on after this; then both it and the
    retry have an effect. Say NotApplied if the operation was cancelled where it would have
    happened, or if the handler sends `claim.derived_key(…)` to a provider that recognises it, or
    if the execution is certainly dead.
    """


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """Nobody can say yet: the key stays an orphan, and its retries are told so.

    `why` goes to the log and to `on_event`; no key and no personal data belongs in it. With
    `ask_again_after_s`, no reconciler is asked again before that time (at most ASK_AGAIN_S_MAX).
    Meanwhile the key counts as in flight: retries are told to come back then, and it cannot be
    settled by hand. Raises UsageError for a time outside of that.
    """

    why: str = ""
    ask_again_after_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a time that cannot be kept."""
        if not 0 <= self.ask_again_after_s <= ASK_AGAIN_S_MAX:
            raise UsageError(f"ask_again_after_s must be from 0 to {ASK_AGAIN_S_MAX:g}")


Verdict: TypeAlias = Applied | NotApplied | StillUnknown

Reconciler: TypeAlias = Callable[[Orphan], Verdict]
"""Finds out what became of an orphan, blocking. It may raise: that counts as StillUnknown."""

AsyncReconciler: TypeAlias = Callable[[Orphan], Awaitable[Verdict]]
"""Finds out what became of an orphan, asynchronously. It may raise, and it may be cancelled."""


@dataclass(frozen=True, slots=True)
class Ask(Effect[Verdict]):
    """Ask the reconciler. May raise whatever the reconciler raises, and TimeoutError."""

    orphan: Orphan
