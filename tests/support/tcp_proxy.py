"""A TCP proxy between a worker and its database: it cuts, holds back, or loses one answer.

It knows nothing of what it carries but bytes; the proxy that knows HTTP is
`replayfloor.testing.proxy`. It runs in a thread of its own and is told from the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator

from anyio.from_thread import BlockingPortal, start_blocking_portal

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024


class TcpProxy:
    """The proxy; `port` is where the client connects to. Made by `tcp_proxy`.

    `lost` counts the answers that were lost.
    """

    def __init__(self, portal: BlockingPortal, upstream_port: int) -> None:
        """Carry to a port of this machine; `upstream_port` may be changed later."""
        self.upstream_port = upstream_port
        self.port = 0
        self.lost = 0
        self._portal = portal
        self._links: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._flowing = asyncio.Event()
        self._lose_after, self._lose_times = b"", 0

    # -- from the test's thread ---------------------------------------------------------------

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        self._portal.call(self._cut)

    def hold(self) -> None:
        """Carry nothing: connections stand, and their ends wait."""
        self._portal.call(self._flowing.clear)

    def heal(self) -> None:
        """Carry again, what was held back first."""
        self._refusing = False
        self._portal.call(self._flowing.set)

    def lose_answer(self, to: bytes, times: int = 1) -> None:
        """Deliver the next messages that contain `to`; drop the answer, and end the connection."""
        self._lose_after, self._lose_times = to, times

    # -- in the proxy's thread ----------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Listen on a free port."""
        self._flowing.set()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            await self._cut()
            await server.wait_closed()

    async def _cut(self) -> None:
        self._refusing = True
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._carry(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with ending(writer):
            if not self._refusing:
                upstream = await asyncio.open_connection(HOST, self.upstream_port)
                async with ending(upstream[1]):
                    await self._both_ways(reader, writer, *upstream)

    async def _both_ways(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        doomed = asyncio.Event()

        def asked(data: bytes) -> None:
            if self._lose_times > 0 and self._lose_after in data:
                self._lose_times -= 1
                doomed.set()

        def may_pass(data: bytes) -> bool:
            self.lost += doomed.is_set()
            return not doomed.is_set()

        async def up() -> None:
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                asked(data)
                up_writer.write(data)

        async def down() -> None:
            while data := await up_reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                if not may_pass(data):
                    return
                writer.write(data)

        ways = [asyncio.create_task(up()), asyncio.create_task(down())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


@contextlib.asynccontextmanager
async def ending(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    """Abort a connection at the end; whatever its peer did to it is no error here."""
    with contextlib.suppress(OSError):
        try:
            yield
        finally:
            writer.transport.abort()
            await writer.wait_closed()


@contextlib.contextmanager
def tcp_proxy(upstream_port: int) -> Generator[TcpProxy]:
    """Run a proxy in a thread of its own."""
    with start_blocking_portal() as portal:
        proxy = portal.call(TcpProxy, portal, upstream_port)
        with portal.wrap_async_context_manager(proxy.listening()):
            yield proxy
