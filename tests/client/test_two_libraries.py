"""httpx and httpx2, blocking, on asyncio and on trio: one script of faults, one course of events.

The flow decides, and the shells move bytes. So whatever a server does, the six ways to call
have to tell the same events, wait as long, send the same requests and end in the same way.
"""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import count

import anyio
import httpx
import pytest

from client.clients import info, named
from client.loopback import Received, closed_port
from client.peers.faulty_server import (
    CUT_IN_BODY,
    NO_ANSWER,
    RESET,
    RESET_IN_BODY,
    WHOLE,
    Break,
    End,
    FaultyServer,
    serving_faults,
)
from client.stacks import STACKS, Stack, StackSetup, on_each_stack
from replayfloor.client import OutcomePending, Profile
from replayfloor.client.errors import OperationError, OperationFacts
from replayfloor.core.problem import Problem, in_flight, key_reused, outcome_unknown

SEED = 100
"""Of dice whose scripts reach every step, event and ending, which a test holds."""
SCRIPTS = 32
STEPS_MAX = 7
RETENTION_S = 7200.0
PROFILE = Profile(name="provider", retention_s=RETENTION_S)
GAPS_S = (0.0, 600.0, RETENTION_S)
"""Between two calls for one operation; after the last one its send deadline has passed."""
LOOKS_MAX = 12
"""The clock may jump past the deadline at one of so many looks, in the midst of an attempt too."""


def refused(problem: Problem) -> Break:
    """Return the step that gives one of our own servers' refusals."""
    response = problem.to_response()
    return spoken(response.status, dict(response.headers), response.body)


def spoken(status: int, headers: dict[bytes, bytes], body: bytes = b"{}") -> Break:
    """Return the step that gives an answer with these headers."""
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers.items())
    head = b"HTTP/1.1 %d Whatever\r\n%sContent-Length: %d\r\n\r\n" % (status, lines, len(body))
    return Break(answer=head + body, end=End.KEEP)


STEPS = {
    "answer": WHOLE,
    "no answer": NO_ANSWER,
    "reset": RESET,
    "reset in the body": RESET_IN_BODY,
    "cut in the body": CUT_IN_BODY,
    "no http": Break(answer=b"this is not HTTP\r\n\r\n"),
    "later": spoken(503, {b"Retry-After": b"2"}),
    "much later": spoken(429, {b"Retry-After": b"3600"}),
    "conflict": spoken(409, {}),
    "failed": spoken(500, {}),
    "unauthorised": spoken(401, {}),
    "in flight": refused(in_flight(1500)),
    "unknown": refused(outcome_unknown(3)),
    "another request": refused(key_reused(["body"])),
    "replay": spoken(201, {b"Idempotent-Replayed": b"true"}),
    "short-lived": spoken(503, {b"Idempotency-Key-Lifetime": b"300"}),
}


@dataclass(frozen=True, slots=True)
class Way:
    """One of the ways to call; `loop` is None for a blocking one."""

    stack: Stack
    loop: str | None

    def __str__(self) -> str:
        return f"{self.stack.name}-{self.loop or 'sync'}"


WAYS = [Way(stack, loop) for stack in STACKS for loop in (None, "asyncio", "trio")]
FACTS = sorted({each.name for each in fields(OperationFacts)} - {"last_response"})


@dataclass(frozen=True, slots=True)
class Script:
    """What happens: the server's steps, the time between the calls, the look at which it jumps."""

    steps: Sequence[str]
    gap_s: float
    jumps_at: int

    @classmethod
    def number(cls, number: int) -> Script:
        """Return one of the scripts: the same for a number, always."""
        dice = random.Random(SEED + number)
        first = list(STEPS)[number % len(STEPS)]
        steps = [first, *dice.choices(list(STEPS), k=dice.randint(0, STEPS_MAX - 1))]
        return cls(steps, dice.choice(GAPS_S), dice.choice([0, dice.randint(1, LOOKS_MAX)]))


@dataclass(slots=True)
class Course:
    """All that happened, in the order in which it did: nothing in it names a library."""

    events: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    endings: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    waits_s: list[float] = field(default_factory=list[float])
    requests: list[object] = field(default_factory=list[object])


def play(way: Way, script: Script, server: FaultyServer) -> Course:
    """Call twice for one operation, from two processes, while the server follows its script."""
    setup = StackSetup(stack=way.stack, profile=PROFILE)
    looks = count(1)

    def clock() -> int:
        if next(looks) == script.jumps_at:
            setup.time.pass_time(RETENTION_S)
        return setup.time.now_ns

    setup.clock = clock
    server.script(*(STEPS[step] for step in script.steps))
    server.received.clear()
    course = Course()
    for wait_s in (script.gap_s, 0.0):
        if way.loop is None:
            course.endings.append(_call(setup, server.url()))
        else:
            course.endings.append(anyio.run(_call_async, setup, server.url(), backend=way.loop))
        setup.time.pass_time(wait_s)
    course.events = [(type(event).__name__, _plain(str(event))) for event in setup.events]
    course.waits_s = setup.time.waits_s
    course.requests = [_request(received) for received in server.received]
    return course


def _call(setup: StackSetup, url: str) -> tuple[str, ...]:
    with setup.client() as client:
        try:
            return _ending(client.post(url, json={"amount": 5}, extensions=named("invoice-1", "k")))
        except setup.stack.http_error as error:
            return _ending(error)


async def _call_async(setup: StackSetup, url: str) -> tuple[str, ...]:
    async with setup.async_client() as client:
        try:
            extensions = named("invoice-1", "k")
            return _ending(await client.post(url, json={"amount": 5}, extensions=extensions))
        except setup.stack.http_error as error:
            return _ending(error)


def _ending(ended: httpx.Response | httpx.HTTPError) -> tuple[str, ...]:
    if not isinstance(ended, Exception):
        return ("answered", str(ended.status_code), repr(ended.content), str(info(ended)))
    kind = type(ended).__name__
    if not isinstance(ended, OperationError):
        return (kind,)
    last = ended.last_response
    facts = {name: getattr(ended, name) for name in FACTS}
    return (kind, _plain(str(facts)), repr(last and (last.status_code, last.content)))


def _plain(text: str) -> str:
    """Return what was told without the words that a library has for a failure: its class counts."""
    return re.sub(r"(\w+(Error|Timeout)): [^'\"]*", r"\1", text)


def _request(received: Received) -> object:
    names = sorted(name.lower() for name, _ in received.headers)
    key = received.values("idempotency-key")
    return (received.method, received.path, names, key, received.body)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    """A server that breaks what it is told to."""
    with serving_faults() as found:
        yield found


@pytest.mark.parametrize("number", range(SCRIPTS))
def test_the_ways_to_call_take_the_same_course(number: int, server: FaultyServer) -> None:
    script = Script.number(number)

    courses = {str(way): play(way, script, server) for way in WAYS}

    first = courses[str(WAYS[0])]
    for way, course in courses.items():
        assert course == first, (way, script)


def test_the_scripts_reach_every_step_and_every_kind_of_event_and_ending(
    server: FaultyServer,
) -> None:
    """Else the comparison above compares less than it could."""
    steps: set[str] = set()
    events: set[str] = set()
    endings: set[str] = set()
    held_back: set[str] = set()
    for number in range(SCRIPTS):
        script = Script.number(number)
        course = play(WAYS[0], script, server)
        steps.update(script.steps[: len(course.requests)])
        events.update(name for name, _ in course.events)
        held_back.update(re.findall(r"begun=\w+", str(course.events)))
        endings.update(kind for kind, *_ in course.endings)

    assert steps == set(STEPS)
    assert events == {
        "AttemptStarted", "AttemptLeft", "AttemptEnded", "WaitStarted", "DeadlineFence",
        "OperationEnded",
    }  # fmt: skip
    assert held_back == {"begun=True", "begun=False"}
    assert endings == {"answered", "OutcomePending", "OutcomeUnknown", "OperationClosed"}


@on_each_stack
def test_what_is_raised_belongs_to_its_library_and_to_us_and_can_be_pickled(
    stack: Stack, server: FaultyServer
) -> None:
    server.script(NO_ANSWER, STEPS["later"])
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending) as caught:
        client.post(server.url(), json={"amount": 5}, extensions=named("invoice-1", "k"))

    copy: object = pickle.loads(pickle.dumps(caught.value))

    others = [each for each in STACKS if each is not stack]
    for error in (caught.value, copy):
        assert isinstance(error, OutcomePending)
        assert isinstance(error, stack.http_error)
        assert not isinstance(error, stack.transport_error)
        assert isinstance(error.request, stack.request)
        assert isinstance(error.last_response, stack.response)
        assert error.last_response.status_code == 503
        for other in others:
            assert not isinstance(error, other.http_error)
    assert str(copy) == str(caught.value)


@on_each_stack
def test_what_was_never_sent_is_the_librarys_own_exception(stack: Stack) -> None:
    url = f"http://127.0.0.1:{closed_port()}/charges"
    with StackSetup(stack=stack).client() as client, pytest.raises(stack.connect_error):
        client.post(url, extensions=named("invoice-1"))


@on_each_stack
def test_what_the_library_cannot_send_was_never_sent(stack: Stack) -> None:
    with StackSetup(stack=stack).client() as client, pytest.raises(stack.unsupported_protocol):
        client.post("ftp://127.0.0.1/charges", extensions=named("invoice-1"))
