"""The fault proxy does what each fault says, on real sockets, and changes no byte on the way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from replayfloor.testing.proxy import FaultProxy, serving
from replayfloor.testing.proxy_plan import (
    BLACK_HOLE,
    DUPLICATE,
    LOSE_REPLY,
    PASS,
    REFUSE,
    Cut,
    CutAfter,
    Delay,
    Duplicate,
    Fault,
    LoseReply,
    Refuse,
    scripted,
    shuffled,
)
from support_tests.upstream import Upstream, running

pytestmark = pytest.mark.anyio

# Longer than any wait in here, shorter than the patience of whoever reads a hanging test.
PATIENCE_S = 10.0
SHORT_S = 0.3

AS_RESET = (httpx.NetworkError, httpx.RemoteProtocolError)
"""A reset before anything was read. httpcore sends head and body apart and passes over the error of
a write; the system tells of a reset only once, so that what it reads then is an orderly end."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server of real sockets, in a thread."""
    with running(Upstream()) as server:
        yield server


@asynccontextmanager
async def _behind(
    upstream: Upstream, *faults: Fault
) -> AsyncIterator[tuple[FaultProxy, httpx.AsyncClient]]:
    proxy = FaultProxy(upstream.server_port, scripted(*faults))
    async with (
        asyncio.timeout(PATIENCE_S),
        proxy,
        httpx.AsyncClient(base_url=proxy.url, timeout=PATIENCE_S, trust_env=False) as client,
    ):
        yield proxy, client


async def test_a_connection_is_kept_alive_over_requests(upstream: Upstream) -> None:
    async with _behind(upstream) as (_, client):
        answers = [await client.post("/", content=body) for body in (b"one", b"two")]
        streams = {answer.extensions["network_stream"] for answer in answers}

    assert [answer.text for answer in answers] == ["0", "1"]
    assert upstream.bodies == [b"one", b"two"]
    assert len(streams) == 1


async def test_a_refused_request_never_reaches_the_upstream(upstream: Upstream) -> None:
    async with _behind(upstream, REFUSE) as (proxy, client):
        with pytest.raises(AS_RESET):
            await client.post("/", content=b"one")
        again = await client.post("/", content=b"two")

    assert again.status_code == 201
    assert upstream.bodies == [b"two"]
    assert proxy.done[Refuse] == 1


async def test_a_refused_connection_is_reset_before_a_byte_is_sent(upstream: Upstream) -> None:
    async with _behind(upstream, REFUSE) as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()


async def test_a_fault_applies_to_a_request_and_not_to_its_connection(upstream: Upstream) -> None:
    async with _behind(upstream, PASS, PASS, REFUSE) as (_, client):
        kept = [await client.post("/", content=b"kept") for _ in range(2)]
        with pytest.raises(httpx.TransportError):
            await client.post("/", content=b"refused")

    assert [answer.status_code for answer in kept] == [201, 201]
    assert upstream.bodies == [b"kept", b"kept"]


async def test_a_lost_reply_is_lost_after_the_effect(upstream: Upstream) -> None:
    async with _behind(upstream, LOSE_REPLY) as (proxy, client):
        with pytest.raises(httpx.ReadError):
            await client.post("/", content=b"one")

        assert upstream.bodies == [b"one"]
        assert proxy.done[LoseReply] == 1


async def test_a_lost_reply_can_also_look_like_an_orderly_end(upstream: Upstream) -> None:
    async with _behind(upstream, LoseReply(Cut.CLOSE)) as (_, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/", content=b"one")

    assert upstream.bodies == [b"one"]


async def test_a_duplicate_reaches_the_upstream_twice_and_answers_once(upstream: Upstream) -> None:
    async with _behind(upstream, DUPLICATE) as (proxy, client):
        first = await client.post("/", content=b"one")
        await proxy.quiet()
        second = await client.post("/", content=b"two")

    assert (first.text, second.text) == ("0", "2")
    assert upstream.bodies == [b"one", b"one", b"two"]
    assert proxy.done[Duplicate] == 1


async def test_quiet_waits_for_the_second_copy(upstream: Upstream) -> None:
    async with _behind(upstream, Duplicate(gap_s=SHORT_S)) as (proxy, client):
        await client.post("/", content=b"one")
        before = len(upstream.bodies)
        await proxy.quiet()

    assert (before, len(upstream.bodies)) == (1, 2)


async def test_holding_waits_until_the_upstream_has_requests() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    proxy = FaultProxy(server.sockets[0].getsockname()[1], scripted())
    async with server, proxy, httpx.AsyncClient(base_url=proxy.url, trust_env=False) as client:
        both = [asyncio.create_task(client.post("/")) for _ in range(2)]
        async with asyncio.timeout(PATIENCE_S):
            await proxy.holding(2)
        held = proxy.waiting
        await proxy.__aexit__(None, None, None)
        failures = await asyncio.gather(*both, return_exceptions=True)

    assert held == 2
    assert all(isinstance(failure, httpx.NetworkError) for failure in failures)


async def test_a_delayed_request_arrives_although_its_client_gave_up(upstream: Upstream) -> None:
    async with _behind(upstream, Delay(SHORT_S)) as (proxy, client):
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/", content=b"late", timeout=SHORT_S / 3)
        before = list(upstream.bodies)
        await proxy.quiet()

    assert before == []
    assert upstream.bodies == [b"late"]


async def test_a_black_hole_takes_a_request_and_never_answers(upstream: Upstream) -> None:
    async with _behind(upstream, BLACK_HOLE) as (_, client):
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/", content=b"one", timeout=SHORT_S)

    assert upstream.bodies == []


async def test_an_answer_is_cut_after_so_many_bytes(upstream: Upstream) -> None:
    async with _behind(upstream, CutAfter(20)) as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none")
        answer = await reader.read()
        writer.close()

    assert answer == b"HTTP/1.1 201 Created"
    assert upstream.bodies == [b"one"]


async def test_a_chunked_body_passes_and_its_end_is_found(upstream: Upstream) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 100_000

    async with _behind(upstream, DUPLICATE) as (proxy, client):
        await client.post("/", content=chunks())
        await client.post("/", content=b"after")
        await proxy.quiet()

    assert sorted(map(len, upstream.bodies)) == [5, 300_000, 300_000]


async def test_requests_sent_ahead_are_answered_in_order(upstream: Upstream) -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"
    async with _behind(upstream) as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request + b"a" + request + b"b")
        answers = [await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(1) for _ in "ab"]
        writer.close()

    assert [answer[-1:] for answer in answers] == [b"0", b"1"]
    assert upstream.bodies == [b"a", b"b"]


async def test_answers_without_a_length_or_a_body_pass(upstream: Upstream) -> None:
    async with _behind(upstream) as (_, client):
        endless = await client.get("/")
        bodiless = await client.head("/")

    assert endless.text == "all there is"
    assert bodiless.headers["content-length"] == "1000"


async def test_an_upstream_that_is_down_looks_like_a_reset() -> None:
    gone = Upstream()
    gone.server_close()
    async with _behind(gone) as (proxy, client):
        with pytest.raises(httpx.NetworkError):
            await client.post("/", content=b"one")

        assert (proxy.unreachable, proxy.broken) == (1, 0)


async def test_an_upstream_that_comes_back_is_used_again() -> None:
    gone = Upstream()
    gone.server_close()
    async with _behind(gone) as (_, client):
        with pytest.raises(httpx.NetworkError):
            await client.post("/", content=b"one")
        with running(Upstream(gone.server_port)) as back:
            answer = await client.post("/", content=b"two")

    assert answer.status_code == 201
    assert back.bodies == [b"two"]


async def test_an_upstream_that_dies_with_a_request_is_counted() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(die, "127.0.0.1", 0)
    proxy = FaultProxy(server.sockets[0].getsockname()[1], scripted())
    async with server, proxy, httpx.AsyncClient(base_url=proxy.url, trust_env=False) as client:
        with pytest.raises(httpx.NetworkError):
            await client.post("/")

    assert (proxy.unreachable, proxy.broken, proxy.waiting) == (0, 1, 0)


async def test_leaving_the_proxy_ends_what_is_under_way(upstream: Upstream) -> None:
    async with _behind(upstream, BLACK_HOLE) as (proxy, client):
        lost = asyncio.create_task(client.post("/", content=b"one"))
        await asyncio.sleep(SHORT_S)
        await proxy.__aexit__(None, None, None)

        with pytest.raises(httpx.NetworkError):
            await lost
        with pytest.raises(httpx.ConnectError):
            await client.post("/", content=b"two")


def test_a_thread_runs_the_proxy_for_synchronous_code(upstream: Upstream) -> None:
    with serving(FaultProxy(upstream.server_port, scripted(REFUSE))) as proxy:
        with pytest.raises(AS_RESET):
            httpx.post(proxy.url, content=b"one", trust_env=False)
        answer = httpx.post(proxy.url, content=b"two", trust_env=False)

    assert answer.status_code == 201
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S)


def test_a_shuffled_plan_deals_every_card_of_each_deck() -> None:
    deck: list[Fault] = [LOSE_REPLY, DUPLICATE, *[PASS] * 8]
    plan = shuffled(7, deck)
    deals = [[plan(number) for number in range(at, at + 10)] for at in (0, 10, 20)]

    assert all(sorted(map(repr, deal)) == sorted(map(repr, deck)) for deal in deals)
    assert deals[0] != deals[1]
    assert deals[0] == [shuffled(7, deck)(number) for number in range(10)]
    assert deals[0] != [shuffled(8, deck)(number) for number in range(10)]
