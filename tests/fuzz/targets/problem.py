"""Answers as the client reads them: nothing raises, and no words make an unknown outcome known.

An input is two bytes of status, one that says which headers there are, one for the length of the
header's value, that value, and the body.
"""

from __future__ import annotations

import json
import zlib
from typing import Final

import httpx

from client.shipped import any_profile
from replayfloor.client.catalogue import catalogue
from replayfloor.client.classify import Action, Finding, classify
from replayfloor.client.library_httpx import HTTPX
from replayfloor.client.profile_answers import AnswerRules
from replayfloor.client.profiles import RETENTION_MAX_S, Profile
from replayfloor.client.support import (
    UNPROFILED,
    Learning,
    deadline_after,
    read_support,
    retention_after,
)
from replayfloor.client.wire import to_reply
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome, executed_nothing, join
from replayfloor.core.problem import TYPE_PREFIX, ProblemKind, problem_kind

PROFILES: Final = tuple(
    {each.answers: each for each in (*map(any_profile, catalogue()), UNPROFILED)}.values()
)
"""One for each way in which providers answer."""

NAMES: Final = (
    "idempotent-replayed",
    "idempotency-key-lifetime",
    "retry-after",
    "stripe-should-retry",
    "content-encoding",
)
"""What has the value that the input says, by the bits of its third byte."""

PROBLEM_BIT, JSON_BIT, DEFLATED_BIT = 0x20, 0x40, 0x80

CAPTIVE_PORTAL: Final = 511
"""Of the statuses from 500 the one that says that the request did not get through (RFC 6585, 6)."""

SAYING_NOTHING_EXECUTED: Final = frozenset(
    {ProblemKind.STORE_UNAVAILABLE, ProblemKind.INVALID_KEY, ProblemKind.MISSING_KEY}
    | {ProblemKind.BODY_TOO_LARGE, ProblemKind.KEY_EXPIRED, ProblemKind.KEY_REUSED}
)


def check(data: bytes) -> None:
    """Read one answer with every profile, after every thing that may be known before it."""
    status = 100 + int.from_bytes(data[:2], "big") % 500
    response, body = _response(status, data[2:])
    for profile in PROFILES:
        reply = to_reply(HTTPX, response, body, profile)
        assert len(reply.response.body) == 0 or status >= 400 or _is_problem(reply.response)
        for known in Outcome:
            finding = classify(reply, known, profile.answers)
            _check_finding(finding, reply.response, known, profile.answers)
        _check_support(reply.response, profile)


def _response(status: int, data: bytes) -> tuple[httpx.Response, bytes]:
    which, length = (*data[:2], 0, 0)[:2]
    value, body = data[2 : 2 + length], data[2 + length :]
    value = value.replace(b"\0", b" ").replace(b"\r", b" ").replace(b"\n", b" ")
    headers = [(name.encode(), value) for bit, name in enumerate(NAMES) if which >> bit & 1]
    if which & PROBLEM_BIT:
        headers.append((b"content-type", b"application/problem+json"))
    elif which & JSON_BIT:
        headers.append((b"content-type", b"application/json"))
    if which & DEFLATED_BIT:
        headers.append((b"content-encoding", b"deflate"))
        body = zlib.compress(body)
    return httpx.Response(status, headers=headers), body


def _check_finding(
    finding: Finding, response: Response, known: Outcome, rules: AnswerRules
) -> None:
    learned = join(known, finding.outcome)
    assert learned >= known, "knowledge only grows"
    kind = problem_kind(_content_type(response), response.body)
    signed = kind is not None or rules.replayed(response.headers) or _has_sign(response, rules)
    if finding.action is Action.RETRY:
        assert finding.outcome is not Outcome.DEFINITIVE, "the result is not asked for again"
        assert not any((finding.mismatch, finding.burnt, finding.settles))
    failed = response.status >= 500 and response.status != CAPTIVE_PORTAL
    if failed or response.status == 408:
        assert signed or finding.outcome is Outcome.UNKNOWN, "a failure alone says nothing"
    if executed_nothing(finding.outcome) and failed and not rules.not_executed:
        assert kind in SAYING_NOTHING_EXECUTED
    if kind is not None:
        assert json.loads(response.body)["type"] == TYPE_PREFIX + kind.value
        assert b"problem+json" in _content_type(response)
    if kind in (ProblemKind.OUTCOME_UNKNOWN, ProblemKind.IN_FLIGHT):
        assert finding.outcome is not Outcome.REJECTED


def _has_sign(response: Response, rules: AnswerRules) -> bool:
    codes = rules.codes(response)
    signs = (*rules.in_flight, *rules.executed, *rules.not_executed, *rules.mismatch)
    return any(sign.given(response.status, codes) for sign in signs)


def _check_support(response: Response, profile: Profile) -> None:
    support = read_support(response)
    if support is not None and support.retention_s is not None:
        assert 0 < support.retention_s <= RETENTION_MAX_S
        value = dict(response.headers)[b"idempotency-key-lifetime"].strip(b" \t")
        assert value.isdigit()
        assert int(value) == support.retention_s
    shortened_s = retention_after(Learning.SHORTEN, profile.retention_s, support)
    assert shortened_s <= profile.retention_s, "a header never lengthens what is published"
    assert deadline_after(profile, shortened_s, 0) <= profile.send_deadline_ns(0)


def _content_type(response: Response) -> bytes:
    return dict(response.headers).get(b"content-type", b"")


def _is_problem(response: Response) -> bool:
    return b"problem+json" in _content_type(response)
