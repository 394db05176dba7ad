"""What the flow has said of a message, as a return or an exception. Decides nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from replayfloor.core.errors import IdempotencyError, StoreUnavailable
from replayfloor.core.problem import Problem, ProblemKind
from replayfloor.core.receipt import Receipt
from replayfloor.core.values import frozen
from replayfloor.server.flow import (
    Admission,
    Admitted,
    Answer,
    Answered,
    Exposed,
    Gone,
    Recorded,
    Refused,
    Replayed,
    Unprotected,
)
from replayfloor.server.once_errors import (
    AlreadyApplied,
    MessageReused,
    OutcomeNotKnown,
    PastHorizon,
    StillInFlight,
)
from replayfloor.server.webhooks.answers import PAST_HORIZON


@frozen
class Subject:
    """Which message is spoken of. `retention_ms`: how long its receipt is kept; None for good."""

    source: str
    receipt_id: str
    retention_ms: int | None

    def __str__(self) -> str:
        """Name it without its own id, which may be a customer's."""
        return f"{self.source}, receipt {self.receipt_id}"


def at_its_beginning(admission: Admission, subject: Subject) -> Admitted:
    """Return under what the block is run, or raise why it is not."""
    match admission:
        case Admitted():
            return admission
        case Replayed(receipt, left_ms):
            raise _applied(subject, receipt, left_ms)
        case Recorded(receipt):
            raise _applied(subject, receipt, subject.retention_ms)
        case Refused(problem):
            raise _refusal(problem, subject, _AT_ITS_BEGINNING)
        case Unprotected() | Exposed() | Gone():
            raise TypeError(f"the flow answered a message with {admission!r}")
        case _:
            assert_never(admission)


def at_its_end(answer: Answer, subject: Subject) -> None:
    """Return if the block's effect stands, or raise why that is not so, or not known."""
    match answer:
        case Answered() | Recorded():
            return
        case Refused(problem):
            raise _refusal(problem, subject, _AT_ITS_END)
        case Replayed() | Unprotected() | Exposed() | Gone():
            raise TypeError(f"the flow settled a message with {answer!r}")
        case _:
            assert_never(answer)


def _applied(subject: Subject, receipt: Receipt, left_ms: int | None) -> AlreadyApplied:
    age = None
    if left_ms is not None and subject.retention_ms is not None:
        age = timedelta(milliseconds=max(0, subject.retention_ms - left_ms))
    if receipt.response == PAST_HORIZON:
        text = f"{subject}: it cannot be told any more whether it was applied; it is not, now"
        return PastHorizon(text, subject.source, subject.receipt_id, age)
    text = f"{subject}: it was applied before; acknowledge it"
    return AlreadyApplied(text, subject.source, subject.receipt_id, age)


@frozen
class _Words:
    """What a refusal says, by where it came."""

    in_flight: str
    unknown: str
    unavailable: str


_AT_ITS_BEGINNING = _Words(
    in_flight="another consumer has it in flight; leave it to be delivered again",
    unknown="it was begun, and how that ended was not recorded; it is not applied again before "
    "that was reconciled",
    unavailable="the receipts cannot be reached; nothing was run",
)
_AT_ITS_END = _Words(
    in_flight="its claim was lost, so that another consumer may have it; leave it to be delivered "
    "again",
    unknown="the answer to its commit was lost; the next delivery tells whether it was applied",
    unavailable="the receipts cannot be reached; what the block wrote was not committed",
)


def _refusal(problem: Problem, subject: Subject, words: _Words) -> IdempotencyError:
    retry_after_s = problem.retry_after_s or 1
    match problem.kind:
        case ProblemKind.IN_FLIGHT:
            text = f"{subject}: {words.in_flight}"
            return StillInFlight(text, subject.source, subject.receipt_id, retry_after_s)
        case ProblemKind.OUTCOME_UNKNOWN:
            text = f"{subject}: {words.unknown}"
            return OutcomeNotKnown(text, subject.source, subject.receipt_id, retry_after_s)
        case ProblemKind.STORE_UNAVAILABLE:
            return StoreUnavailable(f"{subject}: {words.unavailable}", performed=False)
        case ProblemKind.EVENT_REUSED:
            text = f"{subject}: its id was used for a message with another body"
            return MessageReused(text, subject.source, subject.receipt_id)
        case _:
            raise TypeError(f"the flow refused a message as {problem.kind.value}")
