"""What the transport tells `on_event` while an operation goes on: values, in the order they happen.

Neither key nor operation id belongs into a metric's attributes: each has as many values as there
are operations.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Protocol, runtime_checkable

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
    KEPT = "kept"
    """With the answer that the journal kept: nothing was sent."""
    CLOSED = "closed"
    """With OperationClosed."""
    MISMATCH = "mismatch"
    """With KeyReuseMismatch."""
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    """With JournalUnavailable."""


class WaitReason(StrEnum):
    """What a call waits for."""

    RETRY = "retry"
    """For the next attempt to make sense."""
    IN_FLIGHT = "in_flight"
    """For an attempt that the server still executes."""
    ANOTHER_CALL = "another_call"
    """For another call of this operation, in this process or another, that is sending now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event tells.

    `at_ns` is the wall clock, ns since 1970 (UTC). `attempt` counts from 1 and `elapsed_s` from
    the first attempt, both over all restarts; an elapsed time never decreases, whatever the clock
    does. `retention_s` is the provider's as it is known, None if it is not. `outcome` is what is
    known of the operation so far; `status` that of the answer at hand. `resumed`: the operation
    was begun by an earlier call.
    """

    at_ns: int
    provider: str
    namespace: str
    operation_id: str
    method: str
    origin: str
    attempt: int
    elapsed_s: float
    retention_s: float | None
    outcome: Outcome
    resumed: bool
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """An attempt is durable in the journal and is sent now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLeft(Event):
    """The headers of an attempt are written now: from here on the server may have heard of it.

    Told from inside the HTTP library's send, in its context, and once more if that library writes
    the same request again by itself. A transport that does not say when it writes tells none. If
    telling it takes until after the send deadline, the attempt does not leave, and its end says so.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """An attempt was answered, or failed. `evidence` says how.

    `maybe_sent`: a byte of this attempt may have left. `in_flight`: the server said that a request
    with this key is still being executed. `replayed`: it said that the answer is the stored one.
    """

    evidence: str
    took_s: float
    maybe_sent: bool
    in_flight: bool
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStarted(Event):
    """The call goes on in `wait_s` seconds."""

    wait_s: float
    reason: WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineFence(Event):
    """The send deadline has passed, and an attempt was held back: before it was begun, or by the
    last look at the clock before its headers were written (`begun`)."""

    begun: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockWentBack(Event):
    """The wall clock shows `behind_s` less than the journal has seen: nothing is sent."""

    behind_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted(Event):
    """A further attempt was not paid for: too many at this origin have failed lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFailed(Event):
    """The journal could not be written.

    After an answer, or when the operation was closed, nothing is lost but the record: the next
    call with this operation id presumes that the attempt may have been executed. Before an attempt
    nothing is sent.
    """

    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnded(Event):
    """The call returns or raises now. `outcome` is what is known in the end."""

    ending: Ending


def left(started: AttemptStarted, at_ns: int, elapsed_s: float) -> AttemptLeft:
    """Return the event that an attempt which was told as `started` leaves at `at_ns`."""
    facts = {field.name: getattr(started, field.name) for field in fields(Event)}
    facts.update(at_ns=at_ns, elapsed_s=max(started.elapsed_s, elapsed_s))
    return AttemptLeft(**facts)


@runtime_checkable
class ScopedSink(Protocol):
    """An `on_event` that also wants to be entered around each call, in its thread or task.

    `scope` is asked for and entered before the first event of a call, and left after the last one
    with the exception that the call raises, if it raises one. What it returns may keep no
    exception from rising.
    """

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        ...

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        """Return what is entered around one call."""
        ...
