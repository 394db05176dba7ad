"""The refusals, explained: which can occur, what each means, what to do, an example. Pure.

A kind that is added has to be added here too: `assert_never` and a test hold that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from replayfloor.core.errors import InvalidKey
from replayfloor.core.key import KeyRules, parse_key
from replayfloor.core.message import Response
from replayfloor.core.problem import (
    BODY_TOO_LARGE,
    EVENT_REUSED,
    HANDLER_FAILED,
    MISSING_KEY,
    Problem,
    ProblemKind,
    answer_not_kept,
    commit_unknown,
    in_flight,
    invalid_key,
    invalid_signature,
    key_expired,
    key_reused,
    outcome_unknown,
    store_unavailable,
    unidentified_event,
)
from replayfloor.server.docs.facts import bytes_words, words
from replayfloor.server.flow.take import UNKNOWN_RETRY_AFTER_S
from replayfloor.server.flow.values import STORE_RETRY_AFTER_S
from replayfloor.server.policy import (
    AfterExpiry,
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
)
from replayfloor.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a refusal means, and what its receiver does about it."""

    meaning: str
    advice: str


EXPLANATIONS: Final[dict[ProblemKind, Explanation]] = {
    ProblemKind.MISSING_KEY: Explanation(
        "The operation requires a key; nothing was executed.", "Send one."
    ),
    ProblemKind.INVALID_KEY: Explanation(
        "The key is malformed, or is sent more than once; nothing was executed.",
        "Correct it. The member `detail` says what is wrong.",
    ),
    ProblemKind.KEY_EXPIRED: Explanation(
        "The key is older than receipts are kept, or was used longer ago, and its answer is gone; "
        "nothing was executed now.",
        "Find out whether the operation was carried out before you use a new key.",
    ),
    ProblemKind.KEY_REUSED: Explanation(
        "The key belongs to another request; the member `differs` says in what. Nothing was "
        "executed.",
        "Use a new key for a new operation, or repeat the first request unchanged.",
    ),
    ProblemKind.IN_FLIGHT: Explanation(
        "The first request with the key has not been answered yet.",
        "Repeat the request, unchanged and with the same key, after `Retry-After`.",
    ),
    ProblemKind.OUTCOME_UNKNOWN: Explanation(
        "The first request with the key was started, and its outcome was not recorded.",
        "Do not use a new key. Repeat the request, unchanged and with the same key, after "
        "`Retry-After`; it is answered as soon as the outcome is known.",
    ),
    ProblemKind.ANSWER_NOT_KEPT: Explanation(
        "The request was executed, once, and will not be again. Its answer was not kept: it had "
        "more than {answer} or {headers} header lines, was streamed, or is a secret. The member "
        "`original_status` is its status.",
        "Read the result from the resource; the member `location` may say where it is.",
    ),
    ProblemKind.BODY_TOO_LARGE: Explanation(
        "The request body has more than {body}; nothing was executed.", "Send less."
    ),
    ProblemKind.HANDLER_FAILED: Explanation(
        "The first request with the key failed before it was answered, and may have had an "
        "effect. It is not executed again.",
        "Find out whether the operation was carried out before you use a new key.",
    ),
    ProblemKind.STORE_UNAVAILABLE: Explanation(
        "The request could not be protected, so nothing was executed.",
        "Repeat the request, unchanged and with the same key, after `Retry-After`.",
    ),
    ProblemKind.INVALID_SIGNATURE: Explanation(
        "The signature of the delivery does not hold; nothing was looked up or stored.",
        "Check the secret, both clocks, and that nothing on the way changes the body.",
    ),
    ProblemKind.UNIDENTIFIED_EVENT: Explanation(
        "The delivery does not tell which event it is of; nothing was executed.",
        "Deliver it with the id of its event. The member `detail` says where that is expected.",
    ),
    ProblemKind.EVENT_REUSED: Explanation(
        "An event with the same id was received before, and was another one; nothing was "
        "executed now.",
        "Give every event an id of its own.",
    ),
}
"""In braces, what the settings say."""


def kinds(options: Options) -> tuple[ProblemKind, ...]:
    """Return which refusals a request with these options can meet."""
    return tuple(kind for kind in ProblemKind if _occurs(kind, options))


def _occurs(kind: ProblemKind, options: Options) -> bool:
    if options.webhook is not None:
        return kind in _OF_WEBHOOKS
    match kind:
        case ProblemKind.MISSING_KEY:
            return options.required
        case ProblemKind.KEY_EXPIRED:
            told = options.after_expiry is AfterExpiry.HANDLER
            return options.retention_ms is not None and not told
        case ProblemKind.OUTCOME_UNKNOWN:
            # Of an orphan, or of a commit whose answer was lost; a repeatable one is taken over.
            return options.effects is not Effects.REPEATABLE
        case ProblemKind.HANDLER_FAILED:
            return ambiguous_disposition(options) is Disposition.STORE
        case ProblemKind.STORE_UNAVAILABLE:
            return not options.executes_openly
        case (
            ProblemKind.INVALID_KEY
            | ProblemKind.KEY_REUSED
            | ProblemKind.IN_FLIGHT
            | ProblemKind.ANSWER_NOT_KEPT
            | ProblemKind.BODY_TOO_LARGE
        ):
            return True
        case (
            ProblemKind.INVALID_SIGNATURE
            | ProblemKind.UNIDENTIFIED_EVENT
            | ProblemKind.EVENT_REUSED
        ):
            return False
        case _:
            assert_never(kind)


OF_DELIVERIES: Final = frozenset(
    {
        ProblemKind.INVALID_SIGNATURE,
        ProblemKind.UNIDENTIFIED_EVENT,
        ProblemKind.EVENT_REUSED,
    }
)
"""What only a sender of webhooks can be answered."""

_OF_WEBHOOKS: Final = OF_DELIVERIES | {
    ProblemKind.IN_FLIGHT,
    ProblemKind.OUTCOME_UNKNOWN,
    ProblemKind.BODY_TOO_LARGE,
    ProblemKind.STORE_UNAVAILABLE,
}
"""What a sender of webhooks can be answered: it sends no key, and is never told of expiry."""


def explain(kind: ProblemKind, settings: Settings) -> Explanation:
    """Return the meaning of a refusal and what to do about it."""
    told = EXPLANATIONS[kind]
    meaning = told.meaning.format(
        body=bytes_words(settings.body_bytes_max),
        answer=bytes_words(settings.response_bytes_max),
        headers=settings.response_headers_max,
    )
    return Explanation(meaning, told.advice)


def retry_after(kind: ProblemKind, every: Sequence[Options]) -> str:
    """Say what the header Retry-After of a refusal holds; empty if it has none.

    `every` are the options under which the refusal is met.
    """
    if kind is not ProblemKind.IN_FLIGHT:
        times = dict.fromkeys(example(kind, options).retry_after_s for options in every)
        return " or ".join(words(time_s * 1000) for time_s in times if time_s is not None)
    longest_ms = max(options.lease_ms for options in every)
    longest_s = in_flight(longest_ms).retry_after_s or 1
    text = f"what is left of the first request's lease, {words(longest_s * 1000)} at most"
    if any(options.effects is Effects.EXTERNAL for options in every):
        # A reconciler that does not know yet holds the key for as long as it says.
        text += " (longer while the outcome of a dead request is being found out)"
    return text


def example(kind: ProblemKind, options: Options) -> Problem:
    """Return a refusal as a request with these options may meet it."""
    match kind:
        case ProblemKind.MISSING_KEY:
            return MISSING_KEY
        case ProblemKind.INVALID_KEY:
            return invalid_key(_refused(b'"', options.key_rules))
        case ProblemKind.KEY_EXPIRED:
            return key_expired((options.retention_ms or 0) // 1000)
        case ProblemKind.KEY_REUSED:
            return key_reused(("body",) if options.body_rule.counts else ("path",))
        case ProblemKind.IN_FLIGHT:
            return in_flight(options.lease_ms)
        case ProblemKind.OUTCOME_UNKNOWN:
            if options.effects is Effects.ATOMIC:
                return commit_unknown(STORE_RETRY_AFTER_S)
            return outcome_unknown(UNKNOWN_RETRY_AFTER_S)
        case ProblemKind.ANSWER_NOT_KEPT:
            return answer_not_kept(Response(201, ((b"location", b"/result/1"),), b""))
        case ProblemKind.BODY_TOO_LARGE:
            return BODY_TOO_LARGE
        case ProblemKind.HANDLER_FAILED:
            return HANDLER_FAILED
        case ProblemKind.STORE_UNAVAILABLE:
            return store_unavailable(STORE_RETRY_AFTER_S)
        case ProblemKind.INVALID_SIGNATURE:
            return invalid_signature("the signature is of another secret, or of another body")
        case ProblemKind.UNIDENTIFIED_EVENT:
            return unidentified_event("no event id at /id of the body")
        case ProblemKind.EVENT_REUSED:
            return EVENT_REUSED
        case _:
            assert_never(kind)


def _refused(raw: bytes, rules: KeyRules) -> str:
    """Return what the sender of a malformed key is told."""
    try:
        parse_key([raw], rules)
    except InvalidKey as error:
        return str(error)
    raise AssertionError("a single quote was taken for a key")
