"""Every kind of body under every kind of fault: each attempt sends the same bytes, on real sockets.

A body that can be read once is sent again empty by most retry loops, and a server says 200 to it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import pytest

from client.clients import POLICY, named
from client.loopback import Received
from client.peers.faulty_server import (
    CUT_IN_BODY,
    NO_ANSWER,
    RESET,
    RESET_IN_BODY,
    WHOLE,
    Break,
    End,
    FaultyServer,
    answer,
    serving_faults,
)
from client.peers.h2_server import (
    GOAWAY_BELOW,
    GOAWAY_NONE,
    H2_OK,
    REFUSED_STREAM,
    H2Step,
    serving_h2,
)
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns
from replayfloor.client import OutcomePending

pytestmark = on_each_stack_by_turns

TEXT = b"pay me once"
PARTS = [b"pay ", b"me ", b"once"]


def _generator() -> Iterator[bytes]:
    yield from PARTS


async def _async_generator() -> AsyncIterator[bytes]:
    for part in PARTS:
        yield part


def _file_at(position: int) -> io.BytesIO:
    file = io.BytesIO(b"..." + TEXT)
    file.seek(position)
    return file


class _Pipe(io.RawIOBase):
    """A file that cannot be sought in, and does not know its length."""

    def __init__(self) -> None:
        super().__init__()
        self._file = io.BytesIO(TEXT)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        return self._file.readinto(buffer)  # type: ignore[arg-type]

    def fileno(self) -> int:
        raise OSError("a pipe of this test has no number")


Options: TypeAlias = dict[str, object]
# What to send, and what every attempt has to bring; None: what the first attempt brought.
BODIES: dict[str, tuple[Callable[[], Options], bytes | None]] = {
    "nothing": (dict, b""),
    "bytes": (lambda: {"content": TEXT}, TEXT),
    "text": (lambda: {"content": TEXT.decode()}, TEXT),
    "json": (lambda: {"json": {"pay": "once"}}, b'{"pay":"once"}'),
    "form": (lambda: {"data": {"pay": "me once"}}, b"pay=me+once"),
    "upload": (lambda: {"files": {"f": _file_at(0)}}, None),
    "upload with fields": (lambda: {"files": {"f": TEXT}, "data": {"a": "1"}}, None),
    "list": (lambda: {"content": list(PARTS)}, TEXT),
    "generator": (lambda: {"content": _generator()}, TEXT),
    "iterator": (lambda: {"content": iter(PARTS)}, TEXT),
    "map": (lambda: {"content": map(bytes, PARTS)}, TEXT),
    "file in its middle": (lambda: {"content": _file_at(3)}, TEXT),
    "file that cannot be sought": (lambda: {"content": io.BufferedReader(_Pipe())}, TEXT),
    "asynchronous generator": (lambda: {"content": _async_generator()}, TEXT),
}
BLOCKING = [name for name in BODIES if name != "asynchronous generator"]
ASYNCHRONOUS = ["nothing", "bytes", "json", "form", "asynchronous generator"]
of_each_kind = pytest.mark.parametrize("kind", BLOCKING)

Step: TypeAlias = Break | H2Step
# What happens to the requests, and whether it takes HTTP/2.
FAULTS: dict[str, list[Step]] = {
    "503": [Break(answer=answer(503), end=End.KEEP), WHOLE],
    "end": [NO_ANSWER, WHOLE],
    "reset": [RESET, WHOLE],
    "reset in the answer": [RESET_IN_BODY, WHOLE],
    "end in the answer": [CUT_IN_BODY, WHOLE],
    "all in turn": [NO_ANSWER, RESET, Break(answer=answer(503), end=End.KEEP), WHOLE],
    "refused stream": [REFUSED_STREAM, H2_OK],
    "goaway": [GOAWAY_NONE, H2_OK],
    "goaway that the library hides": [GOAWAY_BELOW, H2_OK],
}
under_each_fault = pytest.mark.parametrize("fault", FAULTS)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server with a script, and what it has received."""

    url: str
    received: list[Received]
    setup: StackSetup
    hides: bool


@contextmanager
def _peer(fault: str, stack: Stack) -> Iterator[Peer]:
    steps = FAULTS[fault]
    h2 = [step for step in steps if isinstance(step, H2Step)]
    if h2:
        setup = StackSetup(stack=stack, http1=False, http2=True)
        with serving_h2() as server:
            # Stream 1 is used up first, so that a GOAWAY can name one below the next.
            server.script(H2_OK, *h2)
            yield Peer(server.url(), server.received, setup, GOAWAY_BELOW in h2)
    else:
        with serving_faults() as plain:
            plain.script(WHOLE, *(step for step in steps if isinstance(step, Break)))
            yield Peer(plain.url(), plain.received, StackSetup(stack=stack), False)


def _check(peer: Peer, fault: str, expected: bytes | None) -> None:
    attempts = peer.received[1:]
    assert len(attempts) == len(FAULTS[fault])
    bodies = [each.body for each in attempts]
    digests = {hashlib.sha256(body).hexdigest() for body in bodies}
    assert len(digests) == 1
    assert bodies[0] == (bodies[0] if expected is None else expected)
    assert expected is not None or TEXT in bodies[0]
    lengths = [each.values("content-length") for each in attempts]
    assert lengths == [[str(len(bodies[0]))]] * len(attempts)
    assert not any(each.values("transfer-encoding") for each in attempts)
    assert len({tuple(each.values("content-type")) for each in attempts}) == 1
    assert len({tuple(each.values("idempotency-key")) for each in attempts}) == 1


@under_each_fault
@of_each_kind
def test_every_attempt_sends_the_same_bytes(kind: str, fault: str, stack: Stack) -> None:
    make, expected = BODIES[kind]
    with _peer(fault, stack) as peer, peer.setup.client() as client:
        client.get(peer.url)
        response = client.post(peer.url, **make())  # type: ignore[arg-type]

    assert response.status_code == 201
    _check(peer, fault, expected)


@pytest.mark.anyio
@on_each_loop
@pytest.mark.parametrize("fault", ["all in turn", "goaway", "goaway that the library hides"])
@pytest.mark.parametrize("kind", ASYNCHRONOUS)
async def test_asynchronously_every_attempt_sends_the_same_bytes(
    kind: str, fault: str, stack: Stack
) -> None:
    make, expected = BODIES[kind]
    with _peer(fault, stack) as peer:
        async with peer.setup.async_client() as client:
            await client.get(peer.url)
            response = await client.post(peer.url, **make())  # type: ignore[arg-type]

    assert response.status_code == 201
    _check(peer, fault, expected)


def _upload_twice(stack: Stack, headers: dict[str, str], server: FaultyServer) -> int:
    """Send an upload, lose the answer, and send it again as after a restart."""
    setup = StackSetup(stack=stack, retry=replace(POLICY, attempts_max=1))
    server.script(NO_ANSWER, WHOLE)
    upload: Options = {"files": {"f": TEXT}, "headers": headers}
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(server.url(), **upload, extensions=named("invoice-1"))  # type: ignore[arg-type]
    with setup.client() as client:
        response = client.post(
            server.url(),
            **upload,  # type: ignore[arg-type]
            extensions=named("invoice-1"),
        )
    return response.status_code


def test_an_upload_after_a_restart_is_the_same_operation_if_it_is_the_same_bytes(
    stack: Stack,
) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=invoice-1"}
    with serving_faults() as server:
        assert _upload_twice(stack, headers, server) == 201

    assert len(set(server.keys())) == 1
    assert len({each.body for each in server.received}) == 1


def test_an_upload_after_a_restart_is_the_same_operation_whatever_its_boundary(
    stack: Stack,
) -> None:
    """The library draws a new one for each request; nothing else of the form is new."""
    with serving_faults() as server:
        assert _upload_twice(stack, {}, server) == 201

    assert len(set(server.keys())) == 1
    assert len({each.body for each in server.received}) == 2
