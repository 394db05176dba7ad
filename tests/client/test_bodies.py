"""Every attempt sends the same bytes; answers that were read inside the loop are whole again."""

from __future__ import annotations

import gzip
import io
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

import httpx
import httpx2
import pytest

from client.clients import FakeTime, info, named
from client.loopback import DROP, OK, Loopback, Reply
from client.stacks import Stack, StackSetup, on_each_stack_by_turns
from replayfloor.client import BodyNotReplayable, RetryPolicy
from replayfloor.client.bodies import REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX

pytestmark = on_each_stack_by_turns

CHUNKS = [b"pay ", b"me ", b"once"]
LARGE = b"x" * (RESPONSE_BYTES_MAX + 70_000)


def _generator() -> Iterator[bytes]:
    yield from CHUNKS


def _file_at_3() -> io.BytesIO:
    file = io.BytesIO(b"...pay me once")
    file.seek(3)
    return file


async def _async_generator() -> AsyncIterator[bytes]:
    for chunk in CHUNKS:
        yield chunk


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"pay me once",
        lambda: list(CHUNKS),
        _generator,
        lambda: iter(CHUNKS),
        lambda: map(bytes, CHUNKS),
        _file_at_3,
    ],
)
def test_every_attempt_sends_the_same_bytes(
    make: Callable[[], bytes | Iterator[bytes]], loopback: Loopback, stack: Stack
) -> None:
    loopback.script(DROP, Reply(503), OK)
    with StackSetup(stack=stack).client() as client:
        client.post(loopback.url(), content=make())

    assert loopback.bodies() == [b"pay me once"] * 3
    lengths = [each.values("content-length") for each in loopback.received]
    assert lengths == [["11"]] * 3
    assert not any(each.values("transfer-encoding") for each in loopback.received)


def test_a_form_a_document_and_an_upload_are_sent_alike_every_time(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(DROP, DROP, OK)
    loopback.script(DROP, DROP, OK, path="/form")
    loopback.script(DROP, DROP, OK, path="/upload")
    with StackSetup(stack=stack).client() as client:
        client.post(loopback.url(), json={"a": 1})
        client.post(loopback.url("/form"), data={"a": "1"})
        client.post(loopback.url("/upload"), files={"f": io.BytesIO(b"file")})

    for path in ("/charges", "/form", "/upload"):
        sent = [each.body for each in loopback.received if each.path == path]
        assert len(sent) == 3
        assert len(set(sent)) == 1
        assert sent[0]


@pytest.mark.anyio
async def test_an_asynchronous_body_is_sent_alike_every_time(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(DROP, Reply(503), OK)
    async with StackSetup(stack=stack).async_client() as client:
        await client.post(loopback.url(), content=_async_generator())

    assert loopback.bodies() == [b"pay me once"] * 3


def _endless() -> Iterator[bytes]:
    while True:
        yield b"x" * (1 << 20)


@pytest.mark.parametrize("body", [_endless(), b"x" * (REQUEST_BYTES_MAX + 1)])
def test_a_body_that_is_too_large_is_refused_before_the_first_byte(
    body: bytes | Iterator[bytes], loopback: Loopback, stack: Stack
) -> None:
    setup = StackSetup(stack=stack)
    with setup.client() as client, pytest.raises(BodyNotReplayable) as caught:
        client.post(loopback.url(), content=body, extensions=named("invoice-1"))

    assert loopback.connections == 0
    assert setup.journal.pending() == ()
    assert caught.value.operation_id == "invoice-1"
    assert caught.value.attempts == 0


def test_an_answer_works_as_if_nothing_had_read_it(loopback: Loopback, stack: Stack) -> None:
    packed = gzip.compress(b'{"id": 7}')
    loopback.script(
        Reply(503), Reply(201, (("Content-Encoding", "gzip"), ("X-Twice", "a")), packed)
    )
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert response.json() == {"id": 7}
    assert response.elapsed > timedelta(0)
    assert response.headers["x-twice"] == "a"
    assert response.num_bytes_downloaded == len(packed)
    assert response.extensions["http_version"] == b"HTTP/1.1"
    assert response.is_closed
    response.raise_for_status()


def test_an_answer_can_be_streamed_raw(loopback: Loopback, stack: Stack) -> None:
    loopback.script(Reply(201, (("Content-Encoding", "gzip"),), gzip.compress(b"raw")))
    with (
        StackSetup(stack=stack).client() as client,
        client.stream("POST", loopback.url()) as response,
    ):
        raw = b"".join(response.iter_raw())

    assert gzip.decompress(raw) == b"raw"


def test_a_large_answer_is_handed_on_as_a_stream(loopback: Loopback, stack: Stack) -> None:
    loopback.script(DROP, Reply(201, body=LARGE))
    with StackSetup(stack=stack, connections_max=1).client() as client:
        with client.stream("POST", loopback.url()) as response:
            body = b"".join(response.iter_bytes())
        again = client.post(loopback.url("/small"))

    assert body == LARGE
    assert again.status_code == 201
    assert info(response).attempts == 2


def test_a_large_answer_that_is_not_wanted_gives_its_connection_back(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(503, body=LARGE), Reply(503, body=LARGE), OK)
    with StackSetup(stack=stack, connections_max=1).client() as client:
        response = client.post(loopback.url())

    assert response.status_code == 201


def test_a_large_answer_that_is_not_wanted_holds_no_connection_during_the_wait(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(503, body=LARGE), OK)
    time = _Busy()
    setup = StackSetup(stack=stack, time=time, connections_max=1)
    with setup.client() as client:
        time.meanwhile = lambda: client.get(loopback.url("/other"), timeout=1.0)
        client.post(loopback.url())

    assert [each.path for each in loopback.received] == ["/charges", "/other", "/charges"]


class _Busy(FakeTime):
    """Does something else while a call waits."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def sleep(self, wait_s: float) -> None:
        self.meanwhile()
        super().sleep(wait_s)


class _Stream(httpx.SyncByteStream, httpx2.SyncByteStream):
    """Knows whether it was closed; may break off. A stream of either library."""

    def __init__(self, breaks: type[Exception] | None = None) -> None:
        self.breaks = breaks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield b"{}"
        if self.breaks is not None:
            raise self.breaks("reset")

    def close(self) -> None:
        self.closed = True


def test_every_answer_is_closed_whole_or_not(stack: Stack) -> None:
    streams = [_Stream(stack.read_error), _Stream()]
    coming = iter(streams)
    inner = stack.mock_transport(lambda _: stack.response(201, stream=next(coming)))
    with StackSetup(stack=stack).client(inner) as client:
        client.post("https://api.example/")

    assert [stream.closed for stream in streams] == [True, True]


def test_no_wait_on_the_network_is_longer_than_what_is_left_of_the_budget(stack: Stack) -> None:
    given: list[object] = []

    def busy(request: httpx.Request) -> httpx.Response:
        given.append(request.extensions["timeout"])
        return stack.response(429)

    setup = StackSetup(
        stack=stack, retry=RetryPolicy(attempts_max=2, wait_base_s=2, wait_cap_s=2, budget_s=9)
    )
    with setup.client(stack.mock_transport(busy)) as client:
        client.post("https://api.example/", timeout=stack.timeout(None, read=8.5, connect=1))

    assert given == [
        {"connect": 1, "read": 8.5, "write": 9, "pool": 9},
        {"connect": 1, "read": 8, "write": 8, "pool": 8},
    ]


@pytest.mark.anyio
async def test_a_large_answer_is_handed_on_asynchronously(loopback: Loopback, stack: Stack) -> None:
    loopback.script(Reply(503, body=LARGE), Reply(201, body=LARGE))
    async with StackSetup(stack=stack, connections_max=1).async_client() as client:
        async with client.stream("POST", loopback.url()) as response:
            body = b"".join([chunk async for chunk in response.aiter_bytes()])
        again = await client.post(loopback.url("/small"))

    assert body == LARGE
    assert again.status_code == 201


def test_an_event_stream_is_handed_on_before_it_ends(loopback: Loopback, stack: Stack) -> None:
    """Its promised bytes never come: a transport that waited for the end would fail here."""
    loopback.script(Reply(200, (("Content-Type", "text/event-stream"),), b"data: 1\n\n", cut=True))
    with (
        StackSetup(stack=stack).client() as client,
        client.stream("POST", loopback.url()) as response,
    ):
        first = next(response.iter_raw())

    assert first == b"data: 1\n\n"
    assert len(loopback.received) == 1


def test_a_body_that_breaks_off_is_asked_for_again(loopback: Loopback, stack: Stack) -> None:
    loopback.script(Reply(201, cut=True), OK)
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert response.json() == {"id": 1}
    assert len(set(loopback.keys())) == 1
