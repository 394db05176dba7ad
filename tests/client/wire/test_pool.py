"""A thousand calls, cancelled at random points and under contention, leave no connection taken.

httpcore 1.0.9, the core of httpx 0.28.1, loses connections by itself when tasks are cancelled that
wait for one (encode/httpcore#1093): after some time its pool counts ten connections in use and no
request, and every call ends with a PoolTimeout. The first test shows it on a bare client, and that
with us there are no more of them. Beyond what the pool counts, every answer that was handed over
has been closed. In httpcore2, the core of httpx2, it was mended in 2.6.0: there none is lost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import anyio
import httpx
import pytest

from client.clients import FakeTime
from client.loopback import DROP, OK, Loopback, Reply, Step
from client.stacks import HTTPX, HTTPX2, Stack, StackSetup, on_each_loop, slots_in_use
from replayfloor.client.bodies import RESPONSE_BYTES_MAX

pytestmark = pytest.mark.anyio

CALLS = 1000
AT_ONCE = 40
CONNECTIONS = 10
PATIENCE_S = 0.1
"""After so long a call is cancelled wherever it is: many wait for a connection then."""
SETTLE_S = 0.3
POINTS = [
    "send_request_headers.started",
    "send_request_headers.complete",
    "send_request_body.started",
    "receive_response_headers.started",
    "receive_response_headers.complete",
    "receive_response_body.started",
    "receive_response_body.complete",
    "response_closed.started",
    "",
]
LARGE = "/large"
PATHS: dict[str, Step] = {
    "/fine": OK,
    "/busy": Reply(503),
    "/lost": DROP,
    LARGE: Reply(201, body=b"x" * (RESPONSE_BYTES_MAX + 1)),
}
OFTEN = {"/fine": 8, "/busy": 4, "/lost": 4, LARGE: 1}


class _Waits(FakeTime):
    """Waits for real, but not long, so that a call can be cancelled in a wait."""

    async def sleep_async(self, wait_s: float) -> None:
        await anyio.sleep(0.01)


@dataclass
class _Watch:
    """Counts the answers that a library's transport hands over, and those that were closed."""

    opened: int = 0
    closed: int = 0

    def over(self, inner: httpx.AsyncHTTPTransport) -> httpx.AsyncHTTPTransport:
        """Return the transport, watched."""
        send = inner.handle_async_request

        async def handle(request: httpx.Request) -> httpx.Response:
            response = await send(request)
            self.opened += 1
            # Of the stream, which has the connection: the answer may get another one.
            stream = response.stream
            assert not isinstance(stream, httpx.SyncByteStream)
            close = stream.aclose
            pending = [True]

            async def aclose() -> None:
                while pending:
                    pending.pop()
                    self.closed += 1
                await close()

            stream.aclose = aclose  # type: ignore[method-assign]
            return response

        inner.handle_async_request = handle  # type: ignore[method-assign]
        return inner


async def _churn(
    client: httpx.AsyncClient, loopback: Loopback, stack: Stack, often: Mapping[str, int] = OFTEN
) -> None:
    """Make the calls; each is cancelled at a point of its own."""
    dice = random.Random(1093)
    for path, step in PATHS.items():
        loopback.script(step, path=path)
    places = anyio.Semaphore(AT_ONCE)

    async def call(path: str, point: str, patience_s: float) -> None:
        async with places:
            with anyio.move_on_after(patience_s) as scope:

                async def trace(name: str, _: object) -> None:
                    if point and name.endswith(point):
                        scope.cancel()

                # Lost answers, and full pools.
                with suppress(stack.http_error):
                    await client.post(
                        loopback.url(path), content=b"pay", extensions={"trace": trace}
                    )

    async with anyio.create_task_group() as group:
        for _ in range(CALLS):
            (path,) = dice.choices(list(often), list(often.values()))
            point = dice.choice(POINTS)
            patience_s = PATIENCE_S if point else dice.uniform(0.0, PATIENCE_S)
            group.start_soon(call, path, point, patience_s)
    await anyio.sleep(SETTLE_S)


async def _lost_by_a_bare_client(stack: Stack, loopback: Loopback) -> int:
    inner = StackSetup(stack=stack, connections_max=CONNECTIONS).async_connections()
    async with stack.async_client(transport=inner, timeout=PATIENCE_S) as client:
        await _churn(client, loopback, stack)
        return slots_in_use(inner)


async def _lost_by_ours(stack: Stack, loopback: Loopback, often: Mapping[str, int] = OFTEN) -> int:
    setup = StackSetup(stack=stack, connections_max=CONNECTIONS, time=_Waits())
    watch = _Watch()
    inner = watch.over(setup.async_connections())
    async with setup.async_client(inner) as client:
        await _churn(client, loopback, stack, often)
        lost = slots_in_use(inner)
        if not lost:
            assert (await client.post(loopback.url("/after"))).status_code == 201
    assert watch.opened == watch.closed
    return lost


async def test_on_httpx_none_is_lost_beyond_those_that_a_bare_client_loses(
    loopback: Loopback,
) -> None:
    by_itself = await _lost_by_a_bare_client(HTTPX, loopback)
    with_us = await _lost_by_ours(HTTPX, loopback)

    assert by_itself > 0
    assert with_us <= by_itself


@on_each_loop
async def test_on_httpx2_none_is_lost(anyio_backend: str, loopback: Loopback) -> None:
    # trio warns of the library's own generators if the rest of an answer is not wanted.
    often = OFTEN if anyio_backend == "asyncio" else OFTEN | {LARGE: 0}

    assert await _lost_by_ours(HTTPX2, loopback, often) == 0
    assert len(loopback.received) > CONNECTIONS
