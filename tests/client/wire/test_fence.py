"""At or past the send deadline no byte of a request leaves, whatever way it takes to the server.

The clock passes the deadline at the last moment that there is: when the headers are about to be
written, after the pool, the proxy and TLS had their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from client.clients import START_NS, named
from client.peers.certificates import Identity
from client.peers.faulty_server import FaultyServer, serving_faults
from client.peers.h2_server import GOAWAY_BELOW, H2_OK, H2Server, serving_h2
from client.peers.proxy import Proxy, serving_proxy
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns, slots_in_use
from replayfloor.client import OutcomeUnknown, Profile
from replayfloor.core.outcome import Outcome

pytestmark = on_each_stack_by_turns

RETENTION_S = 1000.0
PROFILE = Profile(name="provider", retention_s=RETENTION_S)
DEADLINE_NS = START_NS + int((RETENTION_S - 60.0) * 1e9)

HTTP1 = "http11.send_request_headers.started"
HTTP2 = "http2.send_request_headers.started"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a server: over TLS or not, through a proxy or not, in which version of HTTP."""

    name: str
    tls: bool = False
    h2: bool = False
    proxied: bool = False

    @property
    def last_event(self) -> str:
        """What the library calls the moment before the headers."""
        return HTTP2 if self.h2 else HTTP1


WAYS = [
    Way("HTTP/1.1"),
    Way("HTTP/1.1 by TLS", tls=True),
    Way("HTTP/2 by prior knowledge", h2=True),
    Way("HTTP/2 by TLS", tls=True, h2=True),
    Way("HTTP/1.1 by TLS through a proxy", tls=True, proxied=True),
    Way("HTTP/2 by TLS through a proxy", tls=True, h2=True, proxied=True),
    Way("HTTP/1.1 forwarded by a proxy", proxied=True),
]
by_each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
# One ns before the deadline it leaves.
at_the_edge = pytest.mark.parametrize(
    ("early_ns", "leaves"), [(1, True), (0, False), (-1, False), (-(10**15), False)]
)


@dataclass
class Road:
    """A way that is open: the server at its end, the proxy on it, and a client that takes it."""

    server: FaultyServer | H2Server
    proxy: Proxy | None
    setup: StackSetup

    def arrived(self) -> bool:
        """Whether any byte of a request reached the server, or of one it was told to forward."""
        self.server.listener.settle()
        if self.proxy is not None:
            self.proxy.listener.settle()
            if any(method != "CONNECT" for method in self.proxy.methods()):
                return True
        if isinstance(self.server, H2Server):
            return bool(self.server.begun)
        return bool(self.server.wire)


@contextmanager
def _open(way: Way, stack: Stack, identity: Identity) -> Iterator[Road]:
    with ExitStack() as stuff:
        tls = identity.server(*(["h2"] if way.h2 else [])) if way.tls else None
        server: FaultyServer | H2Server = (
            stuff.enter_context(serving_h2(tls))
            if way.h2
            else stuff.enter_context(serving_faults(tls))
        )
        proxy = stuff.enter_context(serving_proxy()) if way.proxied else None
        setup = StackSetup(
            stack=stack,
            profile=PROFILE,
            verify=identity.client(),
            http1=way.tls or not way.h2,
            http2=way.h2,
            proxy=None if proxy is None else proxy.url,
            connections_max=1,
        )
        yield Road(server, proxy, setup)


class _LastMoment:
    """A trace callable that sets the clock when the request's own headers are about to go."""

    def __init__(self, road: Road, way: Way, early_ns: int) -> None:
        self.road, self.way, self.early_ns = road, way, early_ns
        self.times = 0

    def __call__(self, name: str, info: dict[str, object]) -> None:
        method = getattr(info.get("request"), "method", None)
        if name == self.way.last_event and method != b"CONNECT":
            self.times += 1
            self.road.setup.time.now_ns = DEADLINE_NS - self.early_ns

    async def asynchronous(self, name: str, info: dict[str, object]) -> None:
        self(name, info)


@by_each_way
@at_the_edge
def test_the_edge_is_exact_at_the_last_moment(
    way: Way, early_ns: int, leaves: bool, stack: Stack, identity: Identity
) -> None:
    with _open(way, stack, identity) as road:
        inner = road.setup.connections()
        with road.setup.client(inner) as client:
            clock = _LastMoment(road, way, early_ns)
            status, unknown = 0, None
            try:
                request = {"trace": clock} | named("invoice-1")
                status = client.post(
                    road.server.url(), content=b"pay", extensions=request
                ).status_code
            except OutcomeUnknown as error:
                unknown = error
            assert slots_in_use(inner) == 0
        assert clock.times == 1
        assert road.arrived() is leaves

    if leaves:
        assert status == 201
    else:
        assert unknown is not None
        assert unknown.outcome is Outcome.NOT_SENT
        assert "was not executed" in str(unknown)


@pytest.mark.anyio
@on_each_loop
@by_each_way
@pytest.mark.parametrize(("early_ns", "leaves"), [(1, True), (0, False)])
async def test_the_edge_is_exact_at_the_last_moment_asynchronously(
    way: Way, early_ns: int, leaves: bool, stack: Stack, identity: Identity
) -> None:
    with _open(way, stack, identity) as road:
        inner = road.setup.async_connections()
        async with road.setup.async_client(inner) as client:
            clock = _LastMoment(road, way, early_ns)
            request = {"trace": clock.asynchronous} | named("invoice-1")
            if leaves:
                response = await client.post(road.server.url(), content=b"pay", extensions=request)
                assert response.status_code == 201
            else:
                with pytest.raises(OutcomeUnknown):
                    await client.post(road.server.url(), content=b"pay", extensions=request)
            assert slots_in_use(inner) == 0
        assert road.arrived() is leaves


@by_each_way
def test_afterwards_the_way_is_open_as_before(way: Way, stack: Stack, identity: Identity) -> None:
    """The pool has one connection: a fence that kept it would close the way for good."""
    with _open(way, stack, identity) as road, road.setup.client() as client:
        with pytest.raises(OutcomeUnknown):
            client.post(road.server.url(), extensions={"trace": _LastMoment(road, way, 0)})
        road.setup.time.now_ns = START_NS
        response = client.post(road.server.url())

    assert response.status_code == 201
    assert len(road.server.received) == 1


@by_each_way
def test_the_last_moment_is_after_everything_that_can_take_its_time(
    way: Way, stack: Stack, identity: Identity
) -> None:
    """The names are no contract: without them the fence would be blind."""
    names: list[str] = []

    def trace(name: str, info: dict[str, object]) -> None:
        connect = getattr(info.get("request"), "method", None) == b"CONNECT"
        names.append(f"{name} of CONNECT" if connect else name)

    with _open(way, stack, identity) as road, road.setup.client() as client:
        client.post(road.server.url(), content=b"pay", extensions={"trace": trace})

    last = names.index(way.last_event)
    before, after = names[:last], names[last:]
    assert "connection.connect_tcp.complete" in before
    assert way.last_event.replace("headers", "body") in after
    slow = ("connect_tcp", "start_tls", "send_connection_init", "of CONNECT")
    assert not any(each in name for name in after for each in slow)
    if way.tls:
        assert any("start_tls" in name for name in before)
    if way.tls and way.proxied:
        assert f"{HTTP1} of CONNECT" in before


def test_a_re_send_that_the_library_hides_is_held_back_too(stack: Stack) -> None:
    """The first one left in time, and the server guarantees that it processed nothing of it."""
    setup = StackSetup(stack=stack, profile=PROFILE, http1=False, http2=True)
    passed = _after_the_body(setup)
    with serving_h2() as server:
        with setup.client() as client:
            client.get(server.url("/warm"))
            server.begun.clear()
            server.steps = [H2_OK, GOAWAY_BELOW, H2_OK]
            with pytest.raises(OutcomeUnknown) as caught:
                client.post(server.url(), content=b"pay", extensions={"trace": passed})
        server.listener.settle()

    assert (len(server.begun), server.executed) == (1, [""])
    assert caught.value.outcome is Outcome.NOT_SENT


def _after_the_body(setup: StackSetup) -> Callable[[str, object], None]:
    """Return a trace callable that lets the deadline pass once a request has left."""

    def trace(name: str, _: object) -> None:
        if name == "http2.send_request_body.complete":
            setup.time.now_ns = DEADLINE_NS

    return trace
