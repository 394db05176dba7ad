"""The processes on stage: a server and a sender that are killed in mid-payment and brought back.

Who is killed and when is decided by progress, never by a clock; that a kill met requests in flight
is counted by the proxy between the two.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from messages import from_line
from processes import Child
from replayfloor.testing.proxy import HOST, FaultProxy
from settings import (
    DEMO,
    IN_FLIGHT_MIN,
    SENDER_KILL_AT,
    SERVER_KILLS_AT,
    START_TIME_MAX_S,
)
from tally import Tally

Note = Callable[[str], None]

PORTS = range(20_000, 30_000)
"""Below what Linux, macOS and the BSDs give to outgoing connections, so that none of those can take
the server's port while it is down."""

PORT_TRIES = 100
START_PAUSE_S = 0.05


def free_port() -> int:
    """Return a port on which nobody listens. Raises OSError if none of many is free."""
    for port in random.sample(PORTS, PORT_TRIES):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise OSError(f"no free port found between {PORTS.start} and {PORTS.stop}")


class Stage:
    """Runs both processes until the sender has nothing left to send."""

    def __init__(
        self,
        *,
        payments: Path,
        keep: Path,
        server_environment: Mapping[str, str],
        proxy: FaultProxy,
        tally: Tally,
        note: Note,
    ) -> None:
        self.server_kills = 0
        self.sender_kills = 0
        self._payments, self._keep = payments, keep
        self._environment = server_environment
        self._proxy, self._tally, self._note = proxy, tally, note
        self._server: Child | None = None
        self._sender: Child | None = None
        self._server_up = asyncio.Event()

    async def play(self) -> None:
        """Run to the end. Raises an ExceptionGroup with ChildFailed if a process fails."""
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(self._keep_server()), group.create_task(self._kill())]
                await self._server_up.wait()
                await self._keep_sender()
                await self._proxy.quiet()
                for helper in helpers:
                    helper.cancel()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        children = [child for child in (self._sender, self._server) if child is not None]
        await asyncio.gather(*(child.stop() for child in children))

    async def _keep_server(self) -> None:
        """Start the server, on the same port each time, whenever it was killed."""
        while True:
            kills = self.server_kills
            self._server = await Child.start(
                str(DEMO / "server.py"),
                str(self._proxy.upstream_port),
                log=self._keep / "server.log",
                environment=self._environment,
            )
            await self._listening(self._server)
            self._server_up.set()
            await self._server.wait()
            self._server_up.clear()
            if kills == self.server_kills:
                raise self._server.failure("the server ended by itself")

    async def _listening(self, server: Child) -> None:
        """Wait until the server takes connections."""
        for _ in range(round(START_TIME_MAX_S / START_PAUSE_S)):
            if server.ended:
                raise server.failure("the server did not start")
            with suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self._proxy.upstream_port)
                writer.close()
                return
            await asyncio.sleep(START_PAUSE_S)
        raise server.failure(f"the server did not listen within {START_TIME_MAX_S:.0f} s")

    async def _keep_sender(self) -> None:
        """Start the sender whenever it was killed; listen to it until it has finished."""
        while True:
            kills = self.sender_kills
            self._sender = await Child.start(
                str(DEMO / "sender.py"),
                *("--payments", str(self._payments)),
                *("--url", self._proxy.url),
                *("--keep", str(self._keep)),
                log=self._keep / "sender.log",
                environment={},
            )
            async for line in self._sender.lines():
                self._tally.hear(from_line(line))
            if await self._sender.wait() == 0:
                return
            if kills == self.sender_kills:
                raise self._sender.failure("the sender failed")

    async def _kill(self) -> None:
        """Kill by plan, each time in the middle of payments."""
        plan = [(share, self._kill_server) for share in SERVER_KILLS_AT]
        plan.append((SENDER_KILL_AT, self._kill_sender))
        for share, kill in sorted(plan, key=lambda each: each[0]):
            while self._tally.share < share:
                await self._tally.news()
            await self._server_up.wait()
            await self._proxy.holding(IN_FLIGHT_MIN)
            kill()

    def _kill_server(self) -> None:
        assert self._server is not None
        self._server_up.clear()
        self.server_kills += 1
        self._server.kill()
        self._note(f"server killed (SIGKILL) with {self._proxy.waiting} requests in its hands")

    def _kill_sender(self) -> None:
        assert self._sender is not None
        self.sender_kills += 1
        self._sender.kill()
        self._note(f"sender killed (SIGKILL) with {self._proxy.waiting} requests under way")
