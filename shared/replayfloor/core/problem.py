"""The refusals, as RFC 9457 problem details: values, one `type` each, valid JSON always.

The `type` is an identifier to branch on, not a locator; the link to read is in the member
`documentation` and in the Link header (draft -07, 2.7, asks for one on 400 and 422).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, cast

from replayfloor.core.key import DRAFT_REVISION
from replayfloor.core.message import Headers, Response, get_first

TYPE_PREFIX: Final = "urn:replayfloor:problem:"
MEDIA_TYPE: Final = "application/problem+json"
DOCUMENTATION: Final = f"https://datatracker.ietf.org/doc/html/{DRAFT_REVISION}#section-2.7"
"""Where a reader finds the rules when the user of the middleware names no page of their own."""


class ProblemKind(StrEnum):
    """What was refused; the last part of the problem's `type`."""

    MISSING_KEY = "missing-key"
    INVALID_KEY = "invalid-key"
    KEY_EXPIRED = "key-expired"
    KEY_REUSED = "key-reused"
    IN_FLIGHT = "in-flight"
    OUTCOME_UNKNOWN = "outcome-unknown"
    ANSWER_NOT_KEPT = "answer-not-kept"
    BODY_TOO_LARGE = "body-too-large"
    HANDLER_FAILED = "handler-failed"
    STORE_UNAVAILABLE = "store-unavailable"
    INVALID_SIGNATURE = "invalid-signature"
    UNIDENTIFIED_EVENT = "unidentified-event"
    EVENT_REUSED = "event-reused"


ANSWERS_KNOWN_MAX: Final = 256
"""Refusals whose answer is remembered: a lease has some thirty values of Retry-After, and whoever
sends thousands of duplicates is not to keep a server busy with writing the same JSON."""

_STATUS_AND_TITLE: Final[dict[ProblemKind, tuple[int, str]]] = {
    ProblemKind.MISSING_KEY: (400, "This operation requires an Idempotency-Key"),
    ProblemKind.INVALID_KEY: (400, "The Idempotency-Key is malformed"),
    ProblemKind.KEY_EXPIRED: (400, "The Idempotency-Key is older than receipts are kept"),
    ProblemKind.KEY_REUSED: (422, "The Idempotency-Key was used for another request"),
    ProblemKind.IN_FLIGHT: (409, "A request with this Idempotency-Key is in flight"),
    ProblemKind.OUTCOME_UNKNOWN: (409, "The outcome of this Idempotency-Key is unknown"),
    ProblemKind.ANSWER_NOT_KEPT: (409, "The request was executed; its answer was not kept"),
    ProblemKind.BODY_TOO_LARGE: (413, "The request body is too large to be protected"),
    ProblemKind.HANDLER_FAILED: (500, "The operation failed; its outcome is not certain"),
    ProblemKind.STORE_UNAVAILABLE: (503, "The request cannot be protected at the moment"),
    ProblemKind.INVALID_SIGNATURE: (401, "The delivery is not shown to be from its sender"),
    ProblemKind.UNIDENTIFIED_EVENT: (400, "The delivery does not tell which event it is of"),
    ProblemKind.EVENT_REUSED: (422, "The id of the event was used for another event"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal. `retry_after_s` is in whole seconds; `members` extend the JSON object.

    `answered_as` replaces the kind's own status, where the other side knows another one for it.
    """

    kind: ProblemKind
    detail: str
    retry_after_s: int | None = None
    members: dict[str, int | str | bool] = field(default_factory=dict[str, int | str | bool])
    answered_as: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status code of the answer."""
        return self.answered_as or _STATUS_AND_TITLE[self.kind][0]

    @property
    def title(self) -> str:
        """The same text for every occurrence (RFC 9457, 3.1.3)."""
        return _STATUS_AND_TITLE[self.kind][1]

    @property
    def type(self) -> str:
        """The absolute URI that identifies the kind of problem (RFC 9457, 3.1.1)."""
        return TYPE_PREFIX + self.kind.value

    def to_response(self, documentation: str = DOCUMENTATION) -> Response:
        """Return the answer to send; `documentation` is the page the link leads to."""
        if self.members:
            return _written(self, documentation)
        return _remembered(
            self.kind, self.detail, self.retry_after_s, self.answered_as, documentation
        )


@lru_cache(ANSWERS_KNOWN_MAX)
def _remembered(
    kind: ProblemKind,
    detail: str,
    retry_after_s: int | None,
    answered_as: int | None,
    documentation: str,
) -> Response:
    return _written(Problem(kind, detail, retry_after_s, answered_as=answered_as), documentation)


def _written(problem: Problem, documentation: str) -> Response:
    content: dict[str, int | str | bool] = {
        "type": problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "documentation": documentation,
    }
    headers: Headers = (
        (b"content-type", MEDIA_TYPE.encode()),
        (b"link", f'<{documentation}>; rel="describedby"; type="text/html"'.encode()),
        (b"cache-control", b"no-store"),
    )
    if problem.retry_after_s is not None:
        content["retry_after"] = problem.retry_after_s
        headers += ((b"retry-after", str(problem.retry_after_s).encode()),)
    body = json.dumps(content | problem.members, ensure_ascii=False).encode()
    return Response(problem.status, headers, body)


def problem_kind(content_type: bytes, body: bytes) -> ProblemKind | None:
    """Return which of our refusals an answer is, or None if it is none of them.

    Members of a wrong type, and unknown members, are ignored (RFC 9457, 3.1 and 3.2).
    """
    if content_type.partition(b";")[0].strip().lower() != MEDIA_TYPE.encode():
        return None
    try:
        content: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    members = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    kind = members.get("type")
    if not isinstance(kind, str) or not kind.startswith(TYPE_PREFIX):
        return None
    try:
        return ProblemKind(kind.removeprefix(TYPE_PREFIX))
    except ValueError:
        return None


# -- the refusals of the server ----------------------------------------------------------------

MISSING_KEY = Problem(
    ProblemKind.MISSING_KEY,
    "Send an Idempotency-Key header with a value that is unique to this operation, in double "
    "quotes, and send the same value when you repeat the request.",
)
BODY_TOO_LARGE = Problem(
    ProblemKind.BODY_TOO_LARGE,
    "Nothing was executed: the body exceeds what is kept to recognise a repeated request.",
)
HANDLER_FAILED = Problem(
    ProblemKind.HANDLER_FAILED,
    "The operation was started and failed before it answered. It is not started again under "
    "this key; ask the operator for its outcome before you use a new one.",
)


def invalid_key(detail: str) -> Problem:
    """Return the 400 for a malformed key."""
    return Problem(ProblemKind.INVALID_KEY, detail)


def key_expired(retention_s: int) -> Problem:
    """Return the 400 for a key whose receipt has expired, or may have (draft -07, 2.3).

    Not 410: senders of webhooks take that for the end of the endpoint.
    """
    return Problem(
        ProblemKind.KEY_EXPIRED,
        f"Receipts are kept for {retention_s} s. The key is older, or it was used longer ago, and "
        "its answer is gone. Nothing was executed now. Find out whether the operation was carried "
        "out before you use a new key.",
        members={"retention": retention_s},
    )


def key_reused(parts: Sequence[str]) -> Problem:
    """Return the 422 for a key that belongs to another request.

    `parts` names what differs (of `replayfloor.core.fingerprint.PARTS`); what the first request
    held is not told.
    """
    differs = ", ".join(parts) or "method, path, query, content type or body"
    return Problem(
        ProblemKind.KEY_REUSED,
        f"The key belongs to a request that differs in: {differs}. Use a new key for a new "
        "operation, or repeat the first request unchanged.",
        members={"differs": ", ".join(parts)} if parts else {},
    )


def in_flight(left_ms: int) -> Problem:
    """Return the 409 for a key in flight whose lease lasts `left_ms` more.

    Retry-After is whole seconds, at least one (RFC 9110, 10.2.3), rounded up, so that a client
    that obeys it does not come back too early.
    """
    return _in_flight(max(1, -(-left_ms // 1000)))


@lru_cache(ANSWERS_KNOWN_MAX)
def _in_flight(retry_after_s: int) -> Problem:
    return Problem(
        ProblemKind.IN_FLIGHT,
        "The first request with this key has not been answered yet. Repeat yours, unchanged, "
        "after the time in Retry-After.",
        retry_after_s=retry_after_s,
    )


def outcome_unknown(retry_after_s: int) -> Problem:
    """Return the 409 for a key whose execution ended without a trace."""
    return Problem(
        ProblemKind.OUTCOME_UNKNOWN,
        "The first request with this key was started and its outcome was not recorded. It is "
        "not executed again before it has been reconciled. Do not use a new key.",
        retry_after_s=retry_after_s,
    )


def commit_unknown(retry_after_s: int) -> Problem:
    """Return the 409 for an execution whose database did not say whether it committed."""
    return Problem(
        ProblemKind.OUTCOME_UNKNOWN,
        "The operation was started, and the answer of its database was lost. Repeat the request, "
        "unchanged and with the same key, to learn its outcome. Do not use a new key.",
        retry_after_s=retry_after_s,
    )


def answer_not_kept(original: Response) -> Problem:
    """Return the 409 for a finished key of which only a tombstone is left.

    `original` is what is left: the status, and perhaps the Location of the result.
    """
    members: dict[str, int | str | bool] = {"original_status": original.status}
    location = get_first(original.headers, b"location")
    if location is not None:
        members["location"] = location.decode("latin-1")
    return Problem(
        ProblemKind.ANSWER_NOT_KEPT,
        "The request was executed once and will not be executed again, but its answer was too "
        "large, or too secret, to be kept. Read the result from the resource itself.",
        members=members,
    )


def store_unavailable(retry_after_s: int) -> Problem:
    """Return the 503 for a request that was not executed because it could not be protected."""
    return Problem(
        ProblemKind.STORE_UNAVAILABLE,
        "Nothing was executed. Repeat the request, unchanged and with the same key.",
        retry_after_s=retry_after_s,
    )


# -- the refusals of webhooks --------------------------------------------------------------------


def invalid_signature(detail: str) -> Problem:
    """Return the 401 for a delivery whose signature does not hold; nothing was looked up."""
    return Problem(ProblemKind.INVALID_SIGNATURE, detail)


def unidentified_event(detail: str) -> Problem:
    """Return the 400 for a delivery without the id of its event; nothing was executed."""
    return Problem(ProblemKind.UNIDENTIFIED_EVENT, detail)


EVENT_REUSED = Problem(
    ProblemKind.EVENT_REUSED,
    "An event with this id was received before, and differs in what all deliveries of one event "
    "share. Nothing was executed now.",
)
