"""What the transport no longer asks its library, once it knows: that every promise stands."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import chain, combinations

import httpcore
import httpx
import pytest

from client.clients import FakeTime, Setup, named
from client.loopback import OK, Loopback
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack
from replayfloor.client import (
    IdempotentTransport,
    MemoryJournal,
    OutcomeUnknown,
    Profile,
    RetryPolicy,
)
from replayfloor.client.bodies import read_response, read_response_async
from replayfloor.client.catalogue import catalogue, profile
from replayfloor.client.classify import classify
from replayfloor.client.effects import Moment, Reply, Send
from replayfloor.client.fence import HOOK, Fence
from replayfloor.client.library import fields_of
from replayfloor.client.library_httpx import HTTPX as LIBRARY
from replayfloor.client.profile_answers import GENERIC
from replayfloor.client.support import (
    LIFETIME_FIELD,
    NoteSupport,
    RecallSupport,
    Support,
    read_support,
)
from replayfloor.client.support_memory import SupportMemory
from replayfloor.core.message import Headers, Response
from replayfloor.core.outcome import Outcome

PROFILE = Profile(name="provider", retention_s=1000.0)
ONE_ATTEMPT = RetryPolicy(attempts_max=1)


# -- the hook that is taken out -------------------------------------------------------------------


def _stays(*names: str, method: bytes = b"POST") -> bool:
    """Return whether the hook is still there after these steps of a request."""
    send = Send(
        key="k",
        now_ns=0,
        seen=Moment(0),
        send_deadline_ns=10**9,
        timeout_s=1.0,
        first_attempt_at_ns=0,
    )
    fence = Fence(send, lambda: Moment(0), None)
    extensions: dict[str, object] = {HOOK: fence.wrap(None)}
    fence.leave(extensions)
    for name in names:
        fence.wrap(None)(name, {"request": httpcore.Request(method, "http://h")})
    return HOOK in extensions


def test_the_hook_stays_until_the_headers_of_the_request_itself_are_written() -> None:
    assert _stays("connection.connect_tcp.started", "connection.start_tls.complete")
    assert _stays("http11.send_request_headers.started", method=b"CONNECT")
    assert not _stays("http11.send_request_headers.started")


def test_the_hook_stays_where_what_left_may_be_withdrawn_and_sent_again() -> None:
    assert _stays("http2.send_request_headers.started", "http2.send_request_body.complete")


class Twice(httpx.HTTPTransport):
    """An inner transport that repeats by itself, and does not say so."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__(trust_env=False)
        self.time = time

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        super().handle_request(request).read()
        self.time.pass_time(2000)
        return super().handle_request(request)


class AsyncTwice(httpx.AsyncHTTPTransport):
    """The same with await."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__(trust_env=False)
        self.time = time

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await (await super().handle_async_request(request)).aread()
        self.time.pass_time(2000)
        return await super().handle_async_request(request)


def test_a_transport_beneath_that_repeats_by_itself_is_held_back_at_the_deadline(
    loopback: Loopback,
) -> None:
    loopback.script(OK, OK)
    setup = Setup(profile=PROFILE, retry=ONE_ATTEMPT)
    with setup.client(Twice(setup.time)) as client, pytest.raises(OutcomeUnknown):
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert len(loopback.received) == 1


@pytest.mark.anyio
@on_each_loop
async def test_the_same_with_await(loopback: Loopback) -> None:
    loopback.script(OK, OK)
    setup = Setup(profile=PROFILE, retry=ONE_ATTEMPT)
    async with setup.async_client(AsyncTwice(setup.time)) as client:
        with pytest.raises(OutcomeUnknown):
            await client.post(loopback.url(), extensions=named("invoice-1"))

    assert len(loopback.received) == 1


@on_each_stack
def test_a_callers_own_hook_is_told_of_every_step(loopback: Loopback, stack: Stack) -> None:
    loopback.script(OK, OK)
    told: list[list[str]] = [[], []]
    extensions = [{"trace": lambda name, _, to=to: to.append(name)} for to in told]
    setup = StackSetup(stack=stack)
    with stack.client(trust_env=False) as bare:
        bare.post(loopback.url(), content=b"pay", extensions=extensions[0])
    with setup.client() as client:
        client.post(loopback.url(), content=b"pay", extensions=extensions[1])

    assert told[0] == told[1]
    assert len(told[0]) > len({"connect", "write headers", "write body", "read headers"})


# -- an answer's body -----------------------------------------------------------------------------


class Trickle(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is complete with its first chunk and yet goes on, with nothing."""

    def __init__(self) -> None:
        self.chunks = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in (b"paid", *[b""] * 9):
            self.chunks += 1
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def _trickling() -> tuple[Trickle, httpx.Response]:
    stream = Trickle()
    return stream, httpx.Response(201, headers={"content-length": "4"}, stream=stream)


def test_a_complete_body_that_goes_on_with_nothing_is_not_waited_for() -> None:
    stream, response = _trickling()
    with pytest.raises(httpx.ReadTimeout):
        read_response(LIBRARY, response, fields_of(response.headers), lambda: True)

    assert stream.chunks == 3


@pytest.mark.anyio
async def test_it_is_not_waited_for_with_await_either() -> None:
    stream, response = _trickling()
    with pytest.raises(httpx.ReadTimeout):
        await read_response_async(LIBRARY, response, fields_of(response.headers), lambda: True)

    assert stream.chunks == 3


# -- an answer's header ---------------------------------------------------------------------------

LINES: Headers = (
    (b"retry-after", b"7"),
    (b"idempotent-replayed", b"true"),
    (b"idempotency-replayed", b"true"),
    (LIFETIME_FIELD, b"300"),
    (b"content-type", b"text/plain"),
)


def test_an_answer_that_is_read_by_its_status_alone_says_nothing_of_keys_either() -> None:
    rules = {GENERIC, *(profile(name, retention_s=300.0).answers for name in catalogue())}
    some = chain.from_iterable(combinations(LINES, count) for count in range(4))
    answers = [Response(201, lines, b"") for lines in some]
    silent = [
        answer
        for answer in answers
        for each in rules
        if classify(Reply(answer), Outcome.NOT_SENT, each).silent
    ]

    assert silent
    # One with a body is looked at line by line.
    closely = [read_support(replace(answer, body=b"-")) for answer in silent]
    assert closely == [None] * len(silent)


def test_lines_of_one_name_are_joined_as_the_library_joins_them() -> None:
    lines = [("Accept", "a"), ("X-Other", "1"), ("accept", "b"), ("ACCEPT", "c"), ("x-other", "2")]
    headers = httpx.Headers(lines)

    fields = fields_of(headers)

    assert fields == {name.lower().encode(): headers[name].encode() for name in headers}
    assert fields[b"accept"] == b"a, b, c"


# -- the choice of a profile ----------------------------------------------------------------------


def test_of_profiles_that_speak_of_every_address_the_first_with_the_method_is_used(
    loopback: Loopback,
) -> None:
    loopback.script(OK, OK, OK)
    first = Profile(name="first", retention_s=1000.0, methods=("POST",))
    second = Profile(name="second", retention_s=1000.0, methods=("put", "POST"))
    journal = MemoryJournal()
    transport = IdempotentTransport(profile=[first, second], journal=journal)
    with httpx.Client(transport=transport, trust_env=False) as client:
        for method in ("POST", "PUT", "GET"):
            client.request(method, loopback.url())

    assert [(each.namespace, each.method) for each in journal.history()] == [
        ("first", "POST"),
        ("second", "PUT"),
    ]


# -- what a server has shown ----------------------------------------------------------------------


class Watched(OrderedDict[str, Support]):
    """Places at which somebody looks after each step of a change."""

    def __init__(self, memory: SupportMemory) -> None:
        super().__init__()
        self.memory = memory
        self.seen: list[Support | None] = []

    def pop(self, key: str, *default: Support) -> Support:  # type: ignore[override]
        found = super().pop(key, *default)
        self.seen.append(self.memory.recall(RecallSupport(key)))
        return found

    def __setitem__(self, key: str, value: Support) -> None:
        super().__setitem__(key, value)
        self.seen.append(self.memory.recall(RecallSupport(key)))

    def move_to_end(self, key: str, last: bool = True) -> None:  # noqa: FBT002
        super().move_to_end(key, last)
        self.seen.append(self.memory.recall(RecallSupport(key)))


def test_what_a_server_has_shown_is_known_also_while_it_is_shown_again() -> None:
    memory = SupportMemory()
    memory._seen = watched = Watched(memory)
    for _ in range(3):
        memory.note(NoteSupport("http://h", Support(100.0)))

    assert set(watched.seen) == {Support(100.0)}
