"""The client's exceptions, and what each tells the caller to do. The flow decides which it is.

    IdempotencyError (core)
    └── OperationError             base: what is known of the operation, as attributes
        ├── OutcomeUndetermined    the operation may have been executed, or not
        │   ├── OutcomePending     call again with the same operation id
        │   └── OutcomeUnknown     final: never send it again, reconcile
        ├── OperationClosed        answered earlier; its key has expired, nothing was sent
        ├── KeyReuseMismatch       another request stands under this id or key, nothing was sent
        ├── BodyNotReplayable      the body cannot be sent twice, nothing was sent
        ├── RedirectRefused        another origin may not get the key, nothing was sent there
        └── JournalUnavailable     the write-ahead failed, nothing was sent

What a transport raises is a subclass that is also an HTTPError of its library (`library_httpx`,
`library_httpx2`), and not one of its RequestErrors or TransportErrors: `except httpx.HTTPError`
catches it, and the retry loops around us, which list transport errors, do not send a payment of
unknown outcome again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from replayfloor.core.errors import IdempotencyError
from replayfloor.core.outcome import Outcome

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFacts:
    """What is known of an operation at the moment of the exception; times are aware, in UTC."""

    provider: str
    operation_id: str | None
    key: str | None
    outcome: Outcome
    attempts: int
    first_attempt_at: datetime | None
    elapsed_s: float
    retention_s: float | None
    retry_until: datetime | None
    final_status: int | None
    evidence: str
    last_response: httpx.Response | None


class OperationError(IdempotencyError):
    """Base: an operation could not be carried to an answer. `str()` says why and what to do.

    Attributes:
        provider: the profile's name.
        operation_id, key: None only if nothing was begun and the caller gave none.
        outcome: what is known, `NOT_SENT` and `REJECTED` meaning that nothing was executed.
        attempts: begun under this key, over all restarts.
        first_attempt_at: aware datetime in UTC, None if nothing was begun.
        elapsed_s: seconds since then, over all restarts.
        retention_s: the provider's key retention in seconds, None if it is not known.
        retry_until: the send deadline, aware datetime in UTC, None if nothing was begun.
        final_status: the status of an answer received earlier.
        evidence: how the last attempt ended, or what refused to begin one.
        last_response: the last answer of this call, read, or None.
        request: the caller's request.

    `resumable` says whether a call with the same operation id may still bring the answer.

    `__cause__` is the last transport error, or the journal's. They can be pickled.
    """

    resumable: ClassVar[bool] = False

    if TYPE_CHECKING:
        # The library's HTTPError has it: every error that is raised is one.
        @property
        def request(self) -> httpx.Request: ...
        @request.setter
        def request(self, request: httpx.Request) -> None: ...

    def __init__(self, message: str, facts: OperationFacts) -> None:
        super().__init__(message)
        self.args = (message, facts)  # what unpickling calls the class with
        self.provider = facts.provider
        self.operation_id = facts.operation_id
        self.key = facts.key
        self.outcome = facts.outcome
        self.attempts = facts.attempts
        self.first_attempt_at = facts.first_attempt_at
        self.elapsed_s = facts.elapsed_s
        self.retention_s = facts.retention_s
        self.retry_until = facts.retry_until
        self.final_status = facts.final_status
        self.evidence = facts.evidence
        self.last_response = facts.last_response

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])

    def __repr__(self) -> str:
        """Return the class and the message."""
        return f"{type(self).__name__}({self.args[0]!r})"


class OutcomeUndetermined(OperationError):
    """The operation may have been executed, or not: no answer tells. Never use a new key."""


class OutcomePending(OutcomeUndetermined):
    """Attempts or budget are used up and the key is still valid: call again with the same id."""

    resumable = True


class OutcomeUnknown(OutcomeUndetermined):
    """The send deadline has passed, or the key repeats a failure that tells nothing: neither the
    old key nor a new one is safe. Final; find out what happened, and reconcile."""


class OperationClosed(OperationError):
    """The operation was answered earlier and its key has expired; nothing was sent."""


class KeyReuseMismatch(OperationError):
    """The operation id or the key belongs to another request; nothing was sent."""


class BodyNotReplayable(OperationError):
    """The body is too large to be kept for another attempt; nothing was sent."""


class RedirectRefused(OperationError):
    """A redirect leads to another origin, or to where the profile does not reach: the key must not
    follow, and without it a repetition could be executed twice. Nothing was sent there."""


class JournalUnavailable(OperationError):
    """The write-ahead could not be made durable; nothing was sent by this call."""

    resumable = True
