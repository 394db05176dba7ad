"""Our own middleware as the other party: a Starlette application, served by uvicorn in a thread.

What its handlers have executed is in the ledger; what was asked of the server is in `received`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from client.loopback import Received
from replayfloor.server import IdempotencyMiddleware
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts

START_S = 10.0
POLL_S = 0.005


@dataclass
class OurServer:
    """The application. `ledger`: what was executed, by payment, in the order of execution."""

    port: int = 0
    ledger: list[str] = field(default_factory=list[str])
    received: list[Received] = field(default_factory=list[Received])

    def app(self) -> Starlette:
        """Return the application, not yet protected."""
        return Starlette(
            routes=[
                Route("/charges", self._charge, methods=["POST", "PATCH"]),
                Route("/broken", self._break, methods=["POST"]),
            ]
        )

    async def _charge(self, request: Request) -> Response:
        """Execute; `after_s` is how long the answer takes after that."""
        asked = await request.json()
        self.ledger.append(asked["payment"])
        entry = len(self.ledger)
        await asyncio.sleep(asked.get("after_s", 0))
        return JSONResponse({"payment": asked["payment"], "entry": entry}, 201)

    async def _break(self, request: Request) -> Response:
        """Execute, and fail after that."""
        self.ledger.append((await request.json())["payment"])
        raise RuntimeError("the handler fails after its effect")

    def noting(self, app: ASGIApp) -> ASGIApp:
        """Return the application, with a note of every request's head."""

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                headers = tuple((name.decode(), each.decode()) for name, each in scope["headers"])
                self.received.append(Received(scope["method"], scope["path"], headers, b""))
            await app(scope, receive, send)

        return noted


@contextmanager
def serving_ours(
    folder: Path,
    *,
    retention_s: float | None = None,
    lease_s: float = 30.0,
    clock: Callable[[], int] = time.time_ns,
) -> Iterator[OurServer]:
    """Serve for as long as the block lasts; `clock`, ns since 1970, is the server's wall clock."""
    server = OurServer()
    protected = IdempotencyMiddleware(
        server.app(),
        receipts=AsyncSQLiteReceipts(folder / "receipts.db", clock=lambda: clock() / 1e9),
        lock="local",
        principal=None,
        retention=retention_s,
        lease_s=lease_s,
    )
    config = uvicorn.Config(
        server.noting(protected), log_level="critical", lifespan="on", ws="none"
    )
    running = uvicorn.Server(config)
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        # How old a key is, the middleware sees by the clock of its process.
        patch.setattr("replayfloor.server.clock.wall_ms", lambda: clock() // 1_000_000)
        server.port = int(listener.getsockname()[1])
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        until = time.monotonic() + START_S
        while not running.started and time.monotonic() < until:
            time.sleep(POLL_S)
        try:
            yield server
        finally:
            running.should_exit = True
            thread.join()
