"""What the server side tells `on_event`: one value per thing that happened, for logs and metrics.

No event carries a key, a principal or a payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What happened to a keyed request, or to the retention of all of them (POLICY_CHANGED).

    PAST_HORIZON: an event came after everything that its sender's horizon allows for; it was
    acknowledged and recorded, and its handler was not called. RETRIES_UNRECOGNISED: a sender says
    that it repeats its deliveries, and none of them is recognised as a repetition.
    """

    CLAIMED = "claimed"
    TAKEN_OVER = "taken-over"
    FINISHED = "finished"
    FREED = "freed"
    REPLAYED = "replayed"
    REFUSED = "refused"
    EXPIRED_BEFORE_RETRY = "expired-before-retry"
    PAST_HORIZON = "past-horizon"
    RETRIES_UNRECOGNISED = "retries-unrecognised"
    LEASE_LOST = "lease-lost"
    RECEIPT_LOST = "receipt-lost"
    LOCK_UNAVAILABLE = "lock-unavailable"
    STORE_UNAVAILABLE = "store-unavailable"
    LEFT_ORPHANED = "left-orphaned"
    EXECUTED_OPENLY = "executed-openly"
    RECEIPT_UNREADABLE = "receipt-unreadable"
    RECONCILED = "reconciled"
    MAINTAINED = "maintained"
    MAINTENANCE_FAILED = "maintenance-failed"
    POLICY_CHANGED = "policy-changed"


WORTH_A_WARNING = frozenset(
    {
        EventKind.EXPIRED_BEFORE_RETRY,
        EventKind.PAST_HORIZON,
        EventKind.RETRIES_UNRECOGNISED,
        EventKind.LEASE_LOST,
        EventKind.RECEIPT_LOST,
        EventKind.LOCK_UNAVAILABLE,
        EventKind.STORE_UNAVAILABLE,
        EventKind.LEFT_ORPHANED,
        EventKind.EXECUTED_OPENLY,
        EventKind.RECEIPT_UNREADABLE,
        EventKind.POLICY_CHANGED,
    }
)
"""Kinds that the person on call wants to find in the log even if nobody listens to events."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One thing that happened. `receipt_id` is the hex id of the key's receipt (empty if no key
    could be read); `detail` is the kind of the problem for REFUSED, the status for FINISHED and
    FREED, what was before and what is now for POLICY_CHANGED, else empty or a cause. `source` says
    whose event it was, where the key was not made by the client: a webhook's sender, a queue; and
    `retried` whether the sender says that this is not its first attempt (None: it does not say)."""

    kind: EventKind
    receipt_id: str
    detail: str = ""
    source: str = ""
    retried: bool | None = None
