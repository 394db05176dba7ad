"""Through an HTTP proxy: what the proxy refuses was not sent, and what it lost may have been."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from client.clients import POLICY, FakeTime, info, named
from client.loopback import closed_port
from client.peers.certificates import Identity
from client.peers.faulty_server import (
    NO_ANSWER,
    RESET,
    WHOLE,
    Break,
    FaultyServer,
    serving_faults,
)
from client.peers.proxy import Mood, Proxy, serving_proxy
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns
from replayfloor.client import OutcomePending
from replayfloor.core.outcome import Outcome

pytestmark = on_each_stack_by_turns


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy that works until it is told not to."""
    with serving_proxy() as running:
        yield running


@pytest.fixture
def shop(identity: Identity) -> Iterator[FaultyServer]:
    """A server with TLS: the way to it is a tunnel."""
    with serving_faults(identity.server()) as server:
        yield server


class _Meanwhile(FakeTime):
    """Changes the proxy's mood while a call waits."""

    def __init__(self, proxy: Proxy, mood: Mood) -> None:
        super().__init__()
        self.proxy, self.mood = proxy, mood

    def sleep(self, wait_s: float) -> None:
        self.proxy.mood = self.mood
        super().sleep(wait_s)


def _setup(stack: Stack, proxy: Proxy, identity: Identity) -> StackSetup:
    return StackSetup(stack=stack, proxy=proxy.url, verify=identity.client())


def _post(client: httpx.Client, server: FaultyServer) -> httpx.Response:
    return client.post(server.url(), content=b"pay me once", extensions=named("invoice-1"))


REFUSALS = [
    (Mood.REFUSES, 407),
    (Mood.REFUSES, 502),
    (Mood.REFUSES, 503),
    (Mood.HANGS_UP, 0),
    (Mood.OPENS_AND_HANGS_UP, 0),
]
in_each_bad_mood = pytest.mark.parametrize(("mood", "status"), REFUSALS)


@in_each_bad_mood
def test_a_tunnel_that_does_not_come_to_stand_has_sent_nothing(
    mood: Mood,
    status: int,
    stack: Stack,
    proxy: Proxy,
    shop: FaultyServer,
    identity: Identity,
) -> None:
    """The CONNECT has headers of its own, which left; the request's did not."""
    setup = _setup(stack, proxy, identity)
    proxy.mood, proxy.status = mood, status
    with setup.client() as client, pytest.raises(stack.transport_error) as caught:
        _post(client, shop)

    assert isinstance(caught.value, stack.proxy_error) is (mood is Mood.REFUSES)
    assert proxy.methods() == ["CONNECT"] * POLICY.attempts_max
    assert (shop.listener.accepted, shop.received) == (0, [])
    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]


@pytest.mark.anyio
@on_each_loop
@in_each_bad_mood
async def test_asynchronously_it_has_sent_nothing_either(
    mood: Mood,
    status: int,
    stack: Stack,
    proxy: Proxy,
    shop: FaultyServer,
    identity: Identity,
) -> None:
    setup = _setup(stack, proxy, identity)
    proxy.mood, proxy.status = mood, status
    async with setup.async_client() as client:
        with pytest.raises(stack.transport_error):
            await client.post(shop.url(), content=b"pay", extensions=named("invoice-1"))

    assert proxy.methods() == ["CONNECT"] * POLICY.attempts_max
    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]


def test_a_proxy_that_is_not_there_has_sent_nothing(stack: Stack, identity: Identity) -> None:
    setup = StackSetup(stack=stack, proxy=f"http://127.0.0.1:{closed_port()}")
    with setup.client() as client, pytest.raises(stack.connect_error):
        client.post("https://127.0.0.1:9/", extensions=named("invoice-1"))

    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]


def test_a_tunnel_that_comes_to_stand_later_is_used(
    stack: Stack, proxy: Proxy, shop: FaultyServer, identity: Identity
) -> None:
    setup = _setup(stack, proxy, identity)
    proxy.mood, proxy.status = Mood.REFUSES, 503

    setup.time = _Meanwhile(proxy, Mood.WORKS)
    with setup.client() as client:
        response = _post(client, shop)

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert proxy.methods() == ["CONNECT", "CONNECT"]
    assert len(shop.received) == 1


@pytest.mark.parametrize("fault", [NO_ANSWER, RESET])
def test_an_answer_that_a_tunnel_lost_is_asked_for_again_with_the_same_key(
    fault: Break, stack: Stack, proxy: Proxy, shop: FaultyServer, identity: Identity
) -> None:
    setup = _setup(stack, proxy, identity)
    shop.script(fault, WHOLE)
    with setup.client() as client:
        response = _post(client, shop)

    assert (response.status_code, len(shop.received)) == (201, 2)
    assert len(set(shop.keys())) == 1
    assert {each.body for each in shop.received} == {b"pay me once"}
    assert proxy.methods() == ["CONNECT", "CONNECT"]


def test_a_proxy_that_fails_after_a_lost_answer_takes_nothing_back(
    stack: Stack, proxy: Proxy, shop: FaultyServer, identity: Identity
) -> None:
    setup = _setup(stack, proxy, identity)
    shop.script(NO_ANSWER)

    setup.time = _Meanwhile(proxy, Mood.REFUSES)
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        _post(client, shop)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert isinstance(caught.value.__cause__, stack.proxy_error)
    assert len(shop.received) == 1


# -- forwarded, without TLS -----------------------------------------------------------------------


def test_what_is_forwarded_arrives_with_the_same_key_every_time(stack: Stack, proxy: Proxy) -> None:
    with serving_faults() as server:
        server.script(NO_ANSWER, RESET, WHOLE)
        with StackSetup(stack=stack, proxy=proxy.url).client() as client:
            response = _post(client, server)

    assert (response.status_code, len(server.received)) == (201, 3)
    assert len(set(server.keys())) == 1
    assert proxy.methods() == ["POST"] * 3


@pytest.mark.parametrize(
    ("status", "outcome"), [(407, Outcome.REJECTED), (502, Outcome.UNKNOWN), (504, Outcome.UNKNOWN)]
)
def test_a_forwarding_proxy_that_answers_itself_is_read_as_any_hop(
    status: int, outcome: Outcome, stack: Stack, proxy: Proxy
) -> None:
    """It may have passed the request on before it failed; only a 407 says that it did not."""
    proxy.mood, proxy.status = Mood.REFUSES, status
    setup = StackSetup(stack=stack, proxy=proxy.url)
    with serving_faults() as server, setup.client() as client:
        if outcome is Outcome.REJECTED:
            assert _post(client, server).status_code == status
        else:
            with pytest.raises(OutcomePending):
                _post(client, server)

    assert [entry.known for entry in setup.journal.pending()] == [outcome]
    assert server.received == []


def test_a_forwarding_proxy_that_hangs_up_may_have_passed_it_on(stack: Stack, proxy: Proxy) -> None:
    proxy.mood = Mood.HANGS_UP
    setup = StackSetup(stack=stack, proxy=proxy.url)
    with serving_faults() as server, setup.client() as client, pytest.raises(OutcomePending):
        _post(client, server)

    assert [entry.known for entry in setup.journal.pending()] == [Outcome.UNKNOWN]
