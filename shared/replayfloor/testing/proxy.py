"""A small TCP proxy that does to HTTP/1.1 requests what networks do: lose, repeat, delay, cut.

It stands between a client and one upstream on this machine. A plan chooses the fault of each
request, also on a connection that is kept alive. What each fault is, is said in `proxy_plan`;
where messages end, in `proxy_http`. No retries, no TLS and no HTTP/2 live here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Self, assert_never

import h11
from anyio.from_thread import start_blocking_portal

from replayfloor.testing.proxy_http import (
    CHUNK_BYTES,
    Deliver,
    MessageScanner,
    RawRequest,
    Streams,
    UpstreamGone,
    arriving,
    drop,
    first,
    hang_up,
    read_request,
)
from replayfloor.testing.proxy_plan import (
    BlackHole,
    Cut,
    CutAfter,
    Delay,
    Duplicate,
    Fault,
    LoseReply,
    Pass,
    Plan,
    Refuse,
)

HOST = "127.0.0.1"
"""The only address that is bound or connected to: a fault proxy is not for anyone else."""


class FaultProxy:
    """The proxy, as an asynchronous context manager. `port` is there once it is entered.

    `waiting` is the number of requests that the upstream has and has not answered. `done` counts,
    by fault, the requests that met it completely; `unreachable` those that found no upstream;
    `broken` those that an upstream took and never answered (it died).
    """

    def __init__(self, upstream_port: int, plan: Plan) -> None:
        self.upstream_port = upstream_port
        self.port = 0
        self.waiting = 0
        self.done: Counter[type[Fault]] = Counter()
        self.unreachable = 0
        self.broken = 0
        self._plan = plan
        self._number = 0
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._taken = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address for the client."""
        return f"http://{HOST}:{self.port}"

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and end every connection; raise what went wrong in here, if anything."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        await self._server.wait_closed()

    async def holding(self, count: int) -> None:
        """Wait until the upstream has at least `count` requests and has not answered them.

        It is so when this returns, and until the caller awaits something.
        """
        while self.waiting < count:
            self._taken.clear()
            await self._taken.wait()

    async def quiet(self) -> None:
        """Wait until no request is under way: none delayed, no second copy, no answer owed."""
        await self._idle.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Task[None]) -> None:
        # A task that failed stays, so that leaving the proxy raises its error.
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    def _next_fault(self) -> Fault:
        self._number += 1
        return self._plan(self._number - 1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = Cut.RESET
        try:
            cut = await self._converse(reader, writer)
        except (OSError, h11.RemoteProtocolError, UpstreamGone):
            # Whatever broke, the client is told in the only words that TCP has for it.
            cut = Cut.RESET
        finally:
            await hang_up(writer, cut)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Cut:
        """Serve one request after the other; return how the connection is to end."""
        fault, start = self._next_fault(), b""
        while not isinstance(fault, Refuse):
            request = await read_request(reader, start)
            if request is None:
                return Cut.CLOSE
            with self._under_way():
                cut = await self._apply(fault, request, reader, writer)
            if cut is not None:
                return cut
            start = request.rest or await reader.read(CHUNK_BYTES)
            if not start:
                return Cut.CLOSE
            fault = self._next_fault()
        self.done[Refuse] += 1
        return Cut.RESET

    async def _apply(
        self,
        fault: Fault,
        request: RawRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Cut | None:
        """Let one request meet its fault; None if the connection goes on."""

        async def deliver(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        cut: Cut | None = None
        match fault:
            case LoseReply(cut):
                await self._ask(request, drop)
            case CutAfter(bytes_max, cut):
                await self._ask(request, first(bytes_max, deliver))
            case BlackHole():
                while await reader.read(CHUNK_BYTES):
                    pass
                cut = Cut.CLOSE
            case Duplicate():
                self._spawn(self._repeat(request, fault.gap_s))
                return await self._ask(request, deliver)
            case Delay():
                await asyncio.sleep(fault.seconds)
                cut = await self._ask(request, deliver)
            case Pass() | Refuse():
                cut = await self._ask(request, deliver)
            case _:
                assert_never(fault)
        self.done[type(fault)] += 1
        return cut

    async def _repeat(self, request: RawRequest, gap_s: float) -> None:
        """Deliver the second copy; it counts as a duplicate only if the upstream answered it."""
        with self._under_way(), contextlib.suppress(UpstreamGone):
            await asyncio.sleep(gap_s)
            await self._ask(request, drop)
            self.done[Duplicate] += 1

    @contextlib.contextmanager
    def _under_way(self) -> Generator[None]:
        self._busy += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def _ask(self, request: RawRequest, deliver: Deliver) -> Cut | None:
        """Send a request upstream, on a connection of its own, and deliver its whole answer.

        Returns how the client's connection has to end, if it has to. Raises UpstreamGone.
        """
        async with self._connected() as (reader, writer):
            scanner = MessageScanner.of_answer(request.method)
            self.waiting += 1
            self._taken.set()
            try:
                writer.write(request.raw)
                while not scanner.complete:
                    await deliver(scanner.feed(await arriving(reader)))
            except (h11.RemoteProtocolError, UpstreamGone) as error:
                self.broken += 1
                raise UpstreamGone from error
            finally:
                self.waiting -= 1
        return Cut.CLOSE if scanner.last or request.last else None

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Streams]:
        try:
            reader, writer = await asyncio.open_connection(HOST, self.upstream_port)
        except OSError as error:
            self.unreachable += 1
            raise UpstreamGone from error
        try:
            # A connection to a port that nobody listens on may be given that very port as its
            # own, and then TCP connects it to itself, and it holds the upstream's port.
            if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
                self.unreachable += 1
                raise UpstreamGone
            yield reader, writer
        finally:
            await hang_up(writer, Cut.CLOSE)


@contextlib.contextmanager
def serving(proxy: FaultProxy) -> Generator[FaultProxy]:
    """Run a proxy in a thread of its own, for code that is not asynchronous."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(proxy) as running:
        yield running
