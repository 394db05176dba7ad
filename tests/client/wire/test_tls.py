"""Whatever breaks inside of TLS reaches the caller as the library's HTTPError, and is never lost.

Both libraries let exceptions of the layers below through (ssl.SSLError, anyio.EndOfStream): who
catches HTTPError would not catch them, and a retry loop would not know them.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator

import pytest

from client.clients import POLICY, info, named
from client.peers.certificates import Identity
from client.peers.faulty_server import (
    CUT_IN_BODY,
    NO_ANSWER,
    PLAIN_ANSWER,
    PLAIN_IN_BODY,
    RESET,
    RESET_IN_BODY,
    WHOLE,
    Break,
    End,
    FaultyServer,
    answer,
    serving_faults,
)
from client.peers.listener import Listener, end_with_fin, end_with_reset
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns, slots_in_use
from replayfloor.client import OutcomePending
from replayfloor.core.outcome import Outcome

pytestmark = on_each_stack_by_turns

FAULTS = {
    "a plain-text answer": PLAIN_ANSWER,
    "no answer": NO_ANSWER,
    "no answer, unannounced": Break(end=End.CUT),
    "a reset": RESET,
    "an end in mid-body": Break(answer=answer(missing=100)),
    "an unannounced end in mid-body": CUT_IN_BODY,
    "a reset in mid-body": RESET_IN_BODY,
    "a plain-text answer in mid-body": PLAIN_IN_BODY,
}
with_each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@pytest.fixture
def shop(identity: Identity) -> Iterator[FaultyServer]:
    """A server with TLS that breaks as told."""
    with serving_faults(identity.server()) as server:
        yield server


def _setup(stack: Stack, identity: Identity) -> StackSetup:
    return StackSetup(stack=stack, verify=identity.client(), connections_max=1)


@with_each_fault
def test_a_fault_within_tls_is_asked_for_again(
    fault: Break, stack: Stack, shop: FaultyServer, identity: Identity
) -> None:
    shop.script(fault, fault, WHOLE)
    with _setup(stack, identity).client() as client:
        response = client.post(shop.url(), content=b"pay", extensions=named("invoice-1"))

    assert (response.status_code, info(response).attempts) == (201, 3)
    assert len(shop.received) == 3
    assert len(set(shop.keys())) == 1


@with_each_fault
def test_a_fault_within_tls_that_stays_is_an_error_of_the_library(
    fault: Break, stack: Stack, shop: FaultyServer, identity: Identity
) -> None:
    shop.script(fault)
    setup = _setup(stack, identity)
    inner = setup.connections()
    with setup.client(inner) as client:
        with pytest.raises(stack.http_error) as caught:
            client.post(shop.url(), content=b"pay", extensions=named("invoice-1"))
        assert slots_in_use(inner) == 0

    assert isinstance(caught.value, OutcomePending)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert isinstance(caught.value.__cause__, stack.transport_error)
    assert len(shop.received) == POLICY.attempts_max


@pytest.mark.anyio
@on_each_loop
@with_each_fault
async def test_asynchronously_it_is_one_too(
    fault: Break, stack: Stack, shop: FaultyServer, identity: Identity
) -> None:
    shop.script(*[fault] * POLICY.attempts_max, WHOLE)
    setup = _setup(stack, identity)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with pytest.raises(stack.http_error) as caught:
            await client.post(shop.url(), content=b"pay", extensions=named("invoice-1"))
        assert slots_in_use(inner) == 0
        again = await client.post(shop.url(), content=b"pay", extensions=named("invoice-1"))

    assert isinstance(caught.value.__cause__, stack.transport_error)
    assert (again.status_code, info(again).attempts) == (201, POLICY.attempts_max + 1)
    assert len(set(shop.keys())) == 1


# -- where TLS does not come to stand -------------------------------------------------------------


def _answers_in_plain_text(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(answer(400, b"this is not a TLS port"))
    end_with_fin(connection)


def _hangs_up(connection: socket.socket) -> None:
    connection.recv(65536)
    end_with_fin(connection)


def _resets(connection: socket.socket) -> None:
    connection.recv(65536)
    end_with_reset(connection)


Serve = Callable[[socket.socket], None]
HANDSHAKES = {
    "a plain-text answer": _answers_in_plain_text,
    "an end": _hangs_up,
    "a reset": _resets,
}
with_each_handshake = pytest.mark.parametrize("serve", HANDSHAKES.values(), ids=HANDSHAKES)


@with_each_handshake
def test_a_handshake_that_fails_has_sent_nothing(
    serve: Serve, stack: Stack, identity: Identity
) -> None:
    setup = _setup(stack, identity)
    with (
        Listener(serve) as listener,
        setup.client() as client,
        pytest.raises(stack.connect_error),
    ):
        client.post(f"https://127.0.0.1:{listener.port}/", extensions=named("invoice-1"))

    assert listener.accepted == POLICY.attempts_max
    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]


@pytest.mark.anyio
@on_each_loop
@with_each_handshake
async def test_asynchronously_it_has_sent_nothing_either(
    serve: Serve, stack: Stack, identity: Identity
) -> None:
    setup = _setup(stack, identity)
    with Listener(serve) as listener:
        async with setup.async_client() as client:
            with pytest.raises(stack.connect_error):
                await client.post(
                    f"https://127.0.0.1:{listener.port}/", extensions=named("invoice-1")
                )

    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]


def test_a_certificate_that_nobody_vouches_for_has_sent_nothing(
    stack: Stack, shop: FaultyServer
) -> None:
    setup = StackSetup(stack=stack, verify=ssl.create_default_context())
    with setup.client() as client, pytest.raises(stack.connect_error, match="CERTIFICATE"):
        client.post(shop.url(), extensions=named("invoice-1"))

    shop.listener.settle()
    assert (shop.received, bytes(shop.wire)) == ([], b"")
    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]
