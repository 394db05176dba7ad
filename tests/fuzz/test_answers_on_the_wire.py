"""The client against a real server that answers anything at all.

Every attempt has the same key, none comes too late, what is raised is of our kinds, and after an
attempt that may have been executed no answer makes the operation one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from client.clients import Setup, info
from client.loopback import DROP, Loopback, Reply, Step, serving
from replayfloor.client import Profile
from replayfloor.client.errors import OperationError
from replayfloor.client.events import AttemptLeft
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.problem import TYPE_PREFIX, ProblemKind

WINDOW_S = 20.0
"""Shorter than the waits that the policy would allow."""
PROFILE = Profile(name="anything", retention_s=WINDOW_S, margin_s=0.0)

EXAMPLES = 80
PATHS = iter(range(1_000_000))

visible = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f\x85"),
    max_size=12,
)
numbers = (st.integers(0, 90) | st.integers(0, 10**12)).map(str)
headers = st.lists(
    st.one_of(
        st.tuples(st.just("Content-Type"), st.just("application/problem+json") | visible),
        st.tuples(st.just("Retry-After"), numbers | visible),
        st.tuples(st.just("Idempotency-Key-Lifetime"), numbers | visible),
        st.tuples(st.just("Idempotent-Replayed"), st.sampled_from(["false", "TRUE ", "yes"])),
        st.tuples(st.just("Content-Encoding"), st.sampled_from(["gzip", "deflate", "br", "x"])),
        st.tuples(st.just("Location"), visible),
    ),
    max_size=4,
).map(tuple)
problems = st.sampled_from(ProblemKind).map(lambda kind: json.dumps({"type": TYPE_PREFIX + kind}))
content = st.binary(max_size=40) | problems.map(str.encode)
replies = st.builds(
    Reply,
    status=st.integers(200, 599).filter(lambda status: status not in (204, 304)),
    headers=headers,
    body=content,
    cut=st.booleans(),
)
steps = st.lists(replies | st.just(DROP), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def anything() -> Iterator[Loopback]:
    with serving() as loopback:
        yield loopback


@given(steps)
@example([Reply(401)])
@example([Reply(503, (("Retry-After", "19"),)), Reply(503), Reply(503)])
@example([Reply(503, (("Retry-After", "30"),))])
@example([Reply(503, (("Idempotency-Key-Lifetime", "2"), ("Retry-After", "1"))), Reply(503)])
@example([Reply(500, (("Retry-After", "9" * 400),), b"")])
@example([Reply(503, (("Content-Type", "application/problem+json"),), b"[" * 5000)])
@example([Reply(409, (("Content-Encoding", "gzip"), ("Content-Type", "application/problem+json")))])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_answer_after_a_lost_one_makes_an_operation_safe_to_send_anew(
    anything: Loopback, script: list[Step]
) -> None:
    path = f"/{next(PATHS)}"
    anything.script(DROP, *script, path=path)
    setup = Setup(profile=PROFILE)
    with setup.client() as client:
        outcome = ask(client, anything.url(path))
    assert not executed_nothing(outcome)
    received = [each for each in anything.received if each.path == path]
    assert len({tuple(each.values("idempotency-key")) for each in received}) == 1
    assert {each.body for each in received} == {received[0].body}
    left_s = [event.elapsed_s for event in setup.events if isinstance(event, AttemptLeft)]
    assert len(left_s) == len(received)
    assert all(moment_s < WINDOW_S for moment_s in left_s), "after the send deadline"


def ask(client: httpx.Client, url: str) -> Outcome:
    """Send one request; return what is then known, whichever way it is told.

    The body is not read: one that is not coded as it says is the caller's, as without us.
    """
    try:
        with client.stream("POST", url, json={"amount": 1}) as response:
            return info(response).outcome
    except OperationError as error:
        return error.outcome
