"""What the transport tells `on_event` while an operation goes on: values, in the order they happen.

Neither key nor operation id belongs into a metric's attributes: each has as many values as there
are operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replayfloor.core.outcome import Outcome


class Ending(StrEnum):
    """How one call of the transport ended."""

    RETURNED = "returned"
    """With an answer."""
    NOT_EXECUTED = "not_executed"
    """With the HTTP library's own exception: nothing was executed."""
    PENDING = "pending"
    """With OutcomePending."""
    UNKNOWN = "unknown"
    """With OutcomeUnknown."""
    CLOSED = "closed"
    """With OperationClosed."""
    MISMATCH = "mismatch"
    """With KeyReuseMismatch."""
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    """With JournalUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event tells.

    `attempt` counts from 1 and `elapsed_s` from the first attempt, both over all restarts.
    `outcome` is what is known of the operation so far; `status` that of the answer at hand.
    """

    provider: str
    operation_id: str
    attempt: int
    elapsed_s: float
    outcome: Outcome
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """An attempt is durable in the journal and is sent now."""

    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """An attempt was answered, or failed. `evidence` says how."""

    evidence: str
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStarted(Event):
    """The next attempt follows in `wait_s` seconds."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFailed(Event):
    """The journal could not be written after an answer, or when the operation was closed.

    Nothing is lost but the record: the next call with this operation id presumes that the
    attempt may have been executed.
    """

    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnded(Event):
    """The call returns or raises now. `outcome` is what is known in the end."""

    ending: Ending
    resumed: bool
