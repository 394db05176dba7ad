"""The refusals: valid problem details, told apart by their type, and read back tolerantly."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core import problem
from replayfloor.core.message import Response, get_all, get_first
from replayfloor.core.problem import Problem, ProblemKind, problem_kind

PROBLEMS = {
    ProblemKind.MISSING_KEY: problem.MISSING_KEY,
    ProblemKind.INVALID_KEY: problem.invalid_key('send "quotes" and \\ properly\n'),
    ProblemKind.KEY_REUSED: problem.key_reused(("body",)),
    ProblemKind.IN_FLIGHT: problem.in_flight(1),
    ProblemKind.OUTCOME_UNKNOWN: problem.outcome_unknown(60),
    ProblemKind.KEY_EXPIRED: problem.key_expired(86_400),
    ProblemKind.ANSWER_NOT_KEPT: problem.answer_not_kept(Response(201, (), b"")),
    ProblemKind.BODY_TOO_LARGE: problem.BODY_TOO_LARGE,
    ProblemKind.HANDLER_FAILED: problem.HANDLER_FAILED,
    ProblemKind.STORE_UNAVAILABLE: problem.store_unavailable(2),
    ProblemKind.INVALID_SIGNATURE: problem.invalid_signature("the secret is another one"),
    ProblemKind.UNIDENTIFIED_EVENT: problem.unidentified_event("no id at /id"),
    ProblemKind.EVENT_REUSED: problem.EVENT_REUSED,
}
STATUSES = {
    ProblemKind.MISSING_KEY: 400,
    ProblemKind.INVALID_KEY: 400,
    ProblemKind.KEY_EXPIRED: 400,
    ProblemKind.KEY_REUSED: 422,
    ProblemKind.IN_FLIGHT: 409,
    ProblemKind.OUTCOME_UNKNOWN: 409,
    ProblemKind.ANSWER_NOT_KEPT: 409,
    ProblemKind.BODY_TOO_LARGE: 413,
    ProblemKind.HANDLER_FAILED: 500,
    ProblemKind.STORE_UNAVAILABLE: 503,
    ProblemKind.INVALID_SIGNATURE: 401,
    ProblemKind.UNIDENTIFIED_EVENT: 400,
    ProblemKind.EVENT_REUSED: 422,
}
JSON = b"application/problem+json"
every_kind = pytest.mark.parametrize("kind", ProblemKind)


def _content(each: Problem) -> dict[str, object]:
    content: object = json.loads(each.to_response().body)
    assert isinstance(content, dict)
    return content


def test_every_kind_is_looked_at() -> None:
    assert set(PROBLEMS) == set(STATUSES) == set(ProblemKind)


@every_kind
def test_a_refusal_is_a_problem_detail_whose_status_is_the_answers(kind: ProblemKind) -> None:
    response = PROBLEMS[kind].to_response()
    content = _content(PROBLEMS[kind])

    assert response.status == content["status"] == STATUSES[kind]
    assert get_all(response.headers, b"content-type") == [JSON]
    assert all(isinstance(content[name], str) for name in ("type", "title", "detail"))


def test_every_kind_has_an_absolute_type_and_a_title_of_its_own() -> None:
    types = [str(_content(each)["type"]) for each in PROBLEMS.values()]
    titles = {each.title for each in PROBLEMS.values()}

    assert len(set(types)) == len(titles) == len(ProblemKind)
    assert all(urlsplit(each).scheme for each in types)


@every_kind
def test_a_refusal_links_to_documentation_in_body_and_header(kind: ProblemKind) -> None:
    response = PROBLEMS[kind].to_response("https://example.org/keys")
    content: dict[str, object] = json.loads(response.body)

    assert content["documentation"] == "https://example.org/keys"
    assert get_all(response.headers, b"link") == [
        b'<https://example.org/keys>; rel="describedby"; type="text/html"'
    ]


@every_kind
def test_retry_after_is_whole_positive_seconds_in_header_and_body(kind: ProblemKind) -> None:
    response = PROBLEMS[kind].to_response()
    header = get_first(response.headers, b"retry-after")
    in_body = _content(PROBLEMS[kind]).get("retry_after")

    waits = {ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN, ProblemKind.STORE_UNAVAILABLE}
    assert (header is not None) is (kind in waits)
    assert header is None or re.fullmatch(rb"[1-9][0-9]*", header)
    assert header is None or int(header) == in_body


@given(st.integers(min_value=-(10**9), max_value=10**12))
def test_a_client_that_obeys_retry_after_never_comes_back_before_the_lease_ends(left: int) -> None:
    wait = problem.in_flight(left).retry_after_s

    assert wait is not None
    assert wait * 1000 >= max(1, left)
    assert wait == 1 or (wait - 1) * 1000 < left


def test_extension_names_are_what_rfc_9457_recommends() -> None:
    names = {name for each in PROBLEMS.values() for name in _content(each)}

    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{2,}", name) for name in names)


def test_an_answer_that_was_not_kept_tells_its_status() -> None:
    assert _content(problem.answer_not_kept(Response(204, (), b"")))["original_status"] == 204


def test_no_refusal_may_be_cached() -> None:
    found = [get_all(each.to_response().headers, b"cache-control") for each in PROBLEMS.values()]

    assert found == [[b"no-store"]] * len(PROBLEMS)


@every_kind
@pytest.mark.parametrize("content_type", [JSON, JSON + b"; charset=utf-8", JSON.upper()])
def test_a_refusal_is_recognised(kind: ProblemKind, content_type: bytes) -> None:
    assert problem_kind(content_type, PROBLEMS[kind].to_response().body) is kind


@pytest.mark.parametrize("content_type", [b"application/json", b"", b"text/html", JSON + b"x"])
def test_another_content_type_is_no_refusal_of_ours(content_type: bytes) -> None:
    assert problem_kind(content_type, problem.key_reused(("body",)).to_response().body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"urn:replayfloor:problem:in-flight"',
        b"{}",
        b'{"type": 5}',
        b'{"type": null}',
        b'{"type": ["urn:replayfloor:problem:in-flight"]}',
        b'{"type": "in-flight"}',
        b'{"type": "urn:replayfloor:problem:"}',
        b'{"type": "urn:replayfloor:problem:of-the-future"}',
        b'{"type": "https://example.org/in-flight"}',
        b'{"type": "\\ud800"}',
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"n": ' + b"9" * 10_000 + b"}",
    ],
)
def test_a_body_without_a_type_of_ours_is_no_refusal_of_ours(body: bytes) -> None:
    assert problem_kind(JSON, body) is None


def test_unknown_members_and_members_of_a_wrong_type_are_ignored() -> None:
    body = b'{"type": "urn:replayfloor:problem:in-flight", "status": "x", "title": 1, "new": {}}'

    assert problem_kind(JSON, body) is ProblemKind.IN_FLIGHT


@given(st.binary(max_size=40), st.binary(max_size=200))
def test_no_bytes_make_it_raise(content_type: bytes, body: bytes) -> None:
    assert problem_kind(content_type, body) is None
    assert problem_kind(JSON, body) is None


@every_kind
def test_a_refusal_may_be_told_by_the_status_that_the_other_side_knows(kind: ProblemKind) -> None:
    each = Problem(kind, "later", 3, answered_as=503)
    plain = Problem(kind, "later", 3)

    assert each.to_response().status == _content(each)["status"] == 503
    assert plain.to_response().status == STATUSES[kind]
