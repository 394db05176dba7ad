"""An answer that was read inside the retry loop is as whole as one that nothing stood before."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import httpx
import pytest

from client.clients import info, named
from client.loopback import DROP, Loopback, Reply
from client.peers.faulty_server import NO_ANSWER, WHOLE, serving_faults
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns
from replayfloor.client import OutcomePending
from replayfloor.client.bodies import RESPONSE_BYTES_MAX

pytestmark = on_each_stack_by_turns

TEXT: Final = b'{"id": 7}\n{"id": 8}\n'
# Does not shrink, so that what is on the wire is large too.
LARGE: Final = random.Random(7).randbytes(RESPONSE_BYTES_MAX + 70_000)
CODINGS: dict[str, Callable[[bytes], bytes]] = {"identity": bytes, "gzip": gzip.compress}
in_each_coding = pytest.mark.parametrize("coding", CODINGS)
of_each_size = pytest.mark.parametrize("body", [b"", TEXT, LARGE], ids=["empty", "small", "large"])


def _reply(coding: str, body: bytes) -> tuple[Reply, bytes]:
    packed = CODINGS[coding](body)
    headers = (("Content-Encoding", coding), ("X-Twice", "a"), ("X-Twice", "b"))
    return Reply(201, headers, packed), packed


@in_each_coding
@of_each_size
def test_an_answer_after_a_lost_one(
    coding: str, body: bytes, stack: Stack, loopback: Loopback
) -> None:
    reply, packed = _reply(coding, body)
    loopback.script(DROP, reply)
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert isinstance(response, stack.response)
    assert response.content == body
    assert response.num_bytes_downloaded == len(packed)
    assert response.elapsed > timedelta(0)
    assert response.headers.get_list("x-twice") == ["a", "b"]
    assert (response.http_version, response.reason_phrase) == ("HTTP/1.1", "Created")
    assert (response.is_closed, response.is_stream_consumed) == (True, True)
    assert response.request.method == "POST"
    assert info(response).attempts == 2
    response.raise_for_status()


@in_each_coding
@of_each_size
def test_an_answer_that_is_streamed(
    coding: str, body: bytes, stack: Stack, loopback: Loopback
) -> None:
    reply, packed = _reply(coding, body)
    loopback.script(DROP, reply)
    with StackSetup(stack=stack, connections_max=1).client() as client:
        with client.stream("POST", loopback.url()) as response:
            assert not response.is_closed
            raw = b"".join(response.iter_raw())
        loopback.counts.clear()
        with client.stream("POST", loopback.url()) as again:
            decoded = b"".join(again.iter_bytes(chunk_size=1000))

    assert (raw, decoded) == (packed, body)
    assert response.num_bytes_downloaded == len(packed)
    assert response.elapsed > timedelta(0)


@pytest.mark.anyio
@on_each_loop
@in_each_coding
@of_each_size
async def test_asynchronously_an_answer_is_whole_too(
    coding: str, body: bytes, stack: Stack, loopback: Loopback
) -> None:
    reply, packed = _reply(coding, body)
    loopback.script(DROP, reply)
    async with StackSetup(stack=stack, connections_max=1).async_client() as client:
        response = await client.post(loopback.url())
        loopback.counts.clear()
        async with client.stream("POST", loopback.url()) as streamed:
            raw = b"".join([chunk async for chunk in streamed.aiter_raw()])

    assert (response.content, raw) == (body, packed)
    assert response.num_bytes_downloaded == len(packed)
    assert response.elapsed > timedelta(0)
    assert streamed.elapsed > timedelta(0)


def test_lines_can_be_read_while_they_arrive(stack: Stack, loopback: Loopback) -> None:
    loopback.script(Reply(201, body=TEXT))
    setup = StackSetup(stack=stack)
    with setup.client() as client, client.stream("POST", loopback.url()) as response:
        lines = list(response.iter_lines())

    assert lines == TEXT.decode().splitlines()


def test_the_last_answer_of_an_operation_that_is_pending_is_whole(
    stack: Stack, loopback: Loopback
) -> None:
    """Who looks at it may ask `raise_for_status`, which needs the request."""
    loopback.script(Reply(503, (("Content-Encoding", "gzip"),), gzip.compress(TEXT)))
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url())

    last = caught.value.last_response
    assert last is not None
    assert isinstance(last, stack.response)
    assert last.content == TEXT
    with pytest.raises(stack.http_status_error):
        last.raise_for_status()


def test_hooks_of_the_client_see_the_answer_and_the_request(
    stack: Stack, loopback: Loopback
) -> None:
    seen: list[tuple[int, str]] = []

    def hook(response: httpx.Response) -> None:
        response.raise_for_status()
        seen.append((response.status_code, response.request.url.path))

    loopback.script(DROP, Reply(503), Reply(201))
    with StackSetup(stack=stack).client() as client:
        client.event_hooks = {"response": [hook]}
        client.post(loopback.url())

    assert seen == [(201, "/charges")]


# -- connections that were open already -----------------------------------------------------------


def test_a_kept_connection_that_ends_without_an_answer_is_asked_again(stack: Stack) -> None:
    """The library calls it a protocol error, which is no network error to a retry loop."""
    with serving_faults() as server, StackSetup(stack=stack).client() as client:
        server.script(WHOLE, NO_ANSWER, WHOLE)
        client.post(server.url(), content=b"first")
        response = client.post(server.url(), content=b"pay", extensions=named("invoice-1"))

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert server.listener.accepted == 2
    assert [each.body for each in server.received] == [b"first", b"pay", b"pay"]
    assert len(set(server.keys()[1:])) == 1


@pytest.mark.anyio
@on_each_loop
async def test_asynchronously_a_kept_connection_that_ends_is_asked_again_too(stack: Stack) -> None:
    with serving_faults() as server:
        async with StackSetup(stack=stack).async_client() as client:
            server.script(WHOLE, NO_ANSWER, WHOLE)
            await client.post(server.url(), content=b"first")
            response = await client.post(server.url(), content=b"pay")

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert len(set(server.keys()[1:])) == 1


def test_a_kept_connection_that_was_closed_meanwhile_costs_at_most_an_attempt(stack: Stack) -> None:
    with serving_faults() as server, StackSetup(stack=stack).client() as client:
        client.post(server.url(), content=b"first")
        server.listener.cut()
        response = client.post(server.url(), content=b"pay", extensions=named("invoice-1"))

    assert response.status_code == 201
    assert [each.body for each in server.received] == [b"first", b"pay"]
