"""Serves an ASGI application under uvicorn, in a thread, on a port of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from replayfloor.conform.shell import Shell

HOST = "127.0.0.1"
COUNT = "/count#/shop/effects"
STARTS_S = STOPS_S = 20.0


@contextmanager
def served(app: ASGIApp) -> Generator[str]:
    """Serve until the end of the block; give the address of the payments."""
    config = uvicorn.Config(
        app, ws="none", lifespan="auto", log_level="critical", date_header=True, interface="asgi3"
    )
    server = uvicorn.Server(config)
    with contextlib.closing(socket.create_server((HOST, 0))) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until = time.monotonic() + STARTS_S
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}/payments"
        finally:
            server.should_exit = True
            thread.join(STOPS_S)


def asking(url: str) -> Shell:
    """Return a shell that asks the shop."""
    return Shell(url, count_url=COUNT)


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Generator[None]:
    """Run a server as a process of its own until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + STARTS_S
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1.0):
                break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(STOPS_S)
