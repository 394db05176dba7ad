"""What an attempt has taught, and what to do next. Pure; knows statuses and problems, no library.

Two questions are kept apart. What is known (the outcome) decides how a call may end; whether
another attempt makes sense (the action) decides whether it ends. In doubt an answer teaches less,
never more: a gateway's 503 does not say that nothing was executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from replayfloor.client.effects import Attempted, Failure, Reply
from replayfloor.core.message import Response, get_first
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.problem import ProblemKind, problem_kind

REPLAYED_FIELDS: Final = (b"idempotent-replayed", b"idempotency-replayed")
"""Either says that the answer is the stored one. The first is Stripe's and ours."""

RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may be answered differently."""

REFUSED: Final = frozenset(
    {307, 308, 400, 401, 403, 407, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431, 511}
)
"""Statuses of a request that was turned away: it was not carried out (RFC 9110, 15; RFC 6585;
RFC 8470). They say nothing about an earlier attempt, which another hop may have let through."""

CONTINUED: Final = frozenset({307, 308, 401, 403, 407})
"""Refusals that the caller may mend and send again: credentials, another address. They are handed
over at once, and the operation stays open."""


class Action(StrEnum):
    """What the flow does after an attempt."""

    RETRY = "retry"
    HAND_OVER = "hand_over"
    """Give the caller what there is: the answer, or the failure."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attempt has taught.

    `settles`: the operation needs no further attempt, unless an earlier attempt may have been
    executed. `in_flight`: wait as for a request that still runs.
    """

    outcome: Outcome
    action: Action
    evidence: str
    status: int | None = None
    settles: bool = False
    in_flight: bool = False
    replayed: bool = False
    retry_after: str | None = None


def classify(attempted: Attempted, known: Outcome) -> Finding:
    """Return what an attempt has taught, given what was `known` before it."""
    match attempted:
        case Reply(response):
            return _classify_response(response, known)
        case Failure(evidence, maybe_sent, transient):
            return Finding(
                Outcome.UNKNOWN if maybe_sent else Outcome.NOT_SENT,
                Action.RETRY if transient else Action.HAND_OVER,
                evidence,
            )


def _classify_response(response: Response, known: Outcome) -> Finding:
    status = response.status
    kind = problem_kind(get_first(response.headers, b"content-type") or b"", response.body)
    retry_after = get_first(response.headers, b"retry-after")
    replayed = any(
        (get_first(response.headers, name) or b"").strip().lower() == b"true"
        for name in REPLAYED_FIELDS
    )
    outcome = Outcome.DEFINITIVE if replayed else _outcome(status, kind, known)
    retry = not replayed and (status in RETRIED or kind in _WAITING)
    return Finding(
        outcome,
        Action.RETRY if retry else Action.HAND_OVER,
        f"status {status}" + (f", problem {kind.value}" if kind else ""),
        status=status,
        settles=outcome is Outcome.DEFINITIVE
        or (outcome is Outcome.REJECTED and not retry and status not in CONTINUED),
        in_flight=kind is ProblemKind.IN_FLIGHT,
        replayed=replayed,
        retry_after=None if retry_after is None else retry_after.decode("latin-1"),
    )


_WAITING: Final = frozenset({ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN})


def _outcome(status: int, kind: ProblemKind | None, known: Outcome) -> Outcome:
    match kind:
        case ProblemKind.IN_FLIGHT:
            return Outcome.IN_FLIGHT
        case ProblemKind.OUTCOME_UNKNOWN:
            return Outcome.UNKNOWN
        case ProblemKind.ANSWER_NOT_KEPT:
            return Outcome.DEFINITIVE
        case ProblemKind.STORE_UNAVAILABLE:
            return Outcome.REJECTED
        case _:
            pass
    if status in REFUSED:
        return Outcome.REJECTED
    if status == 408 or status >= 500:
        # 408 too: gateways also send it for a request that they passed on and got no answer to.
        return Outcome.UNKNOWN
    if status == 409 and not executed_nothing(known):
        # A conflict with the state of the resource, or a provider's own word for "in flight":
        # after an attempt that may have been sent, the two cannot be told apart.
        return Outcome.IN_FLIGHT
    return Outcome.DEFINITIVE
