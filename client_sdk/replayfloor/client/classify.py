"""What an attempt has taught, and what to do next. Pure; knows statuses and problems, no library.

Two questions are kept apart. What is known (the outcome) decides how a call may end; whether
another attempt makes sense (the action) decides whether it ends. In doubt an answer teaches less,
never more: a gateway's 503 does not say that nothing was executed.

An answer is read by the first of these that knows it: our own problems, the mark of a stored
answer, the signs of the provider's profile, the status. What the provider says about another
attempt comes last. It may call one off; it may ask for one, and the budget and the send deadline
bound that one as they bound every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from replayfloor.client.effects import Attempted, Reply
from replayfloor.client.profile_answers import (
    GENERIC,
    RETRY_AFTER_FIELD,
    AnswerRules,
    problem_of,
)
from replayfloor.core.message import Response, get_first
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.problem import ProblemKind

RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may be answered differently."""

REFUSED: Final = frozenset(
    {307, 308, 400, 401, 403, 404, 405, 407, 410, 411, 413, 414, 415, 417, 421, 422, 425, 426}
    | {428, 429, 431, 511}
)
"""Statuses of a request that was turned away: it was not carried out (RFC 9110, 15; RFC 6585;
RFC 8470). They say nothing about an earlier attempt, which another hop may have let through: a
proxy whose routes are just being changed answers 404 as well."""

CONTINUED: Final = frozenset({307, 308, 401, 403, 407})
"""Refusals that the caller may mend and send again: credentials, another address. They are handed
over at once, and the operation stays open."""


BY_STATUS_MAX: Final = 256
"""Findings remembered, by status and by what was known before: more than are ever met."""


class Action(StrEnum):
    """What the flow does after an attempt."""

    RETRY = "retry"
    HAND_OVER = "hand_over"
    """Give the caller what there is: the answer, or the failure."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attempt has taught.

    `settles`: the operation needs no further attempt, unless an earlier attempt may have been
    executed. `in_flight`: wait as for a request that still runs. `replayed`: the answer is about an
    earlier request with the key. `mismatch`: the key belongs to another request. `burnt`: no
    attempt under this key will ever tell more than is known now. `silent`: the answer says nothing
    but its status, of keys neither.
    """

    outcome: Outcome
    action: Action
    evidence: str
    status: int | None = None
    settles: bool = False
    in_flight: bool = False
    replayed: bool = False
    retry_after: str | None = None
    mismatch: bool = False
    burnt: bool = False
    silent: bool = field(default=False, compare=False)


def classify(attempted: Attempted, known: Outcome, rules: AnswerRules = GENERIC) -> Finding:
    """Return what an attempt has taught, given what was `known` before it.

    `rules` say how the provider answers: `Profile.answers`.
    """
    if isinstance(attempted, Reply):
        return _classify_response(attempted.response, known, rules)
    return Finding(
        Outcome.UNKNOWN if attempted.maybe_sent else Outcome.NOT_SENT,
        Action.RETRY if attempted.transient else Action.HAND_OVER,
        attempted.evidence,
    )


def _classify_response(response: Response, known: Outcome, rules: AnswerRules) -> Finding:
    status = response.status
    if rules.silent(response):
        # By the number: Python hashes a member of an enumeration by its name, and slowly.
        return _by_status(status, int(known))
    kind = problem_of(response)
    replayed = rules.replayed(response.headers)
    retry_after = get_first(response.headers, RETRY_AFTER_FIELD.encode()) or None
    finding = (
        (_stored(status, kind, rules) if replayed else None)
        or _problem(status, kind, known)
        or _signed(response, rules)
        or _plain(status, known)
    )
    finding = replace(
        finding,
        status=status,
        settles=_settles(finding, status),
        replayed=replayed or finding.replayed,
        retry_after=None if retry_after is None else retry_after.decode("latin-1"),
    )
    return _hinted(finding, response, rules) if rules.should_retry else finding


@lru_cache(BY_STATUS_MAX)
def _by_status(status: int, known: int) -> Finding:
    """Return what an answer says that says nothing but its status: as nearly all do."""
    plain = _plain(status, Outcome(known))
    return replace(plain, status=status, settles=_settles(plain, status), silent=True)


def _settles(finding: Finding, status: int) -> bool:
    if finding.outcome is Outcome.DEFINITIVE:
        return True
    refused = finding.outcome is Outcome.REJECTED and status not in CONTINUED
    return refused and finding.action is Action.HAND_OVER


def _stored(status: int, kind: ProblemKind | None, rules: AnswerRules) -> Finding | None:
    """Return what a stored answer says; None if it is not the result of the operation."""
    if status in rules.burnt or kind is ProblemKind.HANDLER_FAILED:
        evidence = f"the stored answer is a status {status}: whether it was executed is not known"
        return Finding(Outcome.UNKNOWN, Action.HAND_OVER, evidence, burnt=True)
    if status in rules.replayed_final:
        return Finding(Outcome.DEFINITIVE, Action.HAND_OVER, _evidence(status, kind))
    return None


def _problem(status: int, kind: ProblemKind | None, known: Outcome) -> Finding | None:
    """Return what one of our own problems says; None if the status says as much."""
    evidence = _evidence(status, kind)
    match kind:
        case ProblemKind.IN_FLIGHT:
            return Finding(Outcome.IN_FLIGHT, Action.RETRY, evidence, in_flight=True)
        case ProblemKind.OUTCOME_UNKNOWN:
            return Finding(Outcome.UNKNOWN, Action.RETRY, evidence)
        case ProblemKind.ANSWER_NOT_KEPT:
            return Finding(Outcome.DEFINITIVE, Action.HAND_OVER, evidence)
        case ProblemKind.STORE_UNAVAILABLE:
            return Finding(Outcome.REJECTED, Action.RETRY, evidence)
        case ProblemKind.KEY_REUSED:
            return Finding(Outcome.REJECTED, Action.HAND_OVER, evidence, mismatch=True)
        case ProblemKind.KEY_EXPIRED:
            # Nothing was executed now; of an earlier attempt the server knows nothing any more.
            burnt = not executed_nothing(known)
            outcome = Outcome.UNKNOWN if burnt else Outcome.REJECTED
            return Finding(outcome, Action.HAND_OVER, evidence, burnt=burnt)
        case None:
            return None
        case _:
            return replace(_plain(status, known), evidence=evidence)


def _signed(response: Response, rules: AnswerRules) -> Finding | None:
    """Return what the provider's signs say; None if the answer gives none of them.

    In flight comes first: a provider may use one type for both errors of a key, and one code.
    """
    if not rules.has_signs:
        return None
    status, codes = response.status, rules.codes(response)
    for signs, finding in (
        (rules.in_flight, _IN_FLIGHT),
        (rules.executed, _EXECUTED),
        (rules.not_executed, _NOT_EXECUTED),
        (rules.mismatch, _MISMATCH),
    ):
        if any(sign.given(status, codes) for sign in signs):
            return replace(finding, evidence=f"status {status}: {finding.evidence}")
    return None


_IN_FLIGHT: Final = Finding(Outcome.IN_FLIGHT, Action.RETRY, "in flight", in_flight=True)
_EXECUTED: Final = Finding(
    Outcome.DEFINITIVE, Action.HAND_OVER, "executed by an earlier request", replayed=True
)
_NOT_EXECUTED: Final = Finding(Outcome.REJECTED, Action.RETRY, "nothing was executed")
_MISMATCH: Final = Finding(
    Outcome.REJECTED, Action.HAND_OVER, "the key belongs to another request", mismatch=True
)


def _plain(status: int, known: Outcome) -> Finding:
    """Return what a status says that is not told apart any further."""
    action = Action.RETRY if status in RETRIED else Action.HAND_OVER
    return Finding(_outcome(status, known), action, _evidence(status, None))


def _outcome(status: int, known: Outcome) -> Outcome:
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


def _hinted(finding: Finding, response: Response, rules: AnswerRules) -> Finding:
    """Return the finding with the provider's word on another attempt."""
    hint = rules.hint(response.headers)
    if hint is False and finding.action is Action.RETRY:
        return replace(finding, action=Action.HAND_OVER)
    if hint is not True or finding.action is Action.RETRY or not _may_change(finding):
        return finding
    outcome = finding.outcome
    if outcome is Outcome.DEFINITIVE:
        # An answer that is to be asked for again is not the result.
        outcome = Outcome.IN_FLIGHT if finding.status == 409 else Outcome.UNKNOWN
    return replace(finding, action=Action.RETRY, outcome=outcome, settles=False)


def _may_change(finding: Finding) -> bool:
    """Return whether the same request may be answered differently, if the provider says so."""
    error = finding.status is not None and finding.status >= 400
    final = finding.replayed or finding.mismatch or finding.burnt
    return error and not final and finding.status not in CONTINUED


def _evidence(status: int, kind: ProblemKind | None) -> str:
    return f"status {status}" + (f", problem {kind.value}" if kind else "")
