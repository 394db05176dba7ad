"""An HTTP/1.1 server around an application of either side, and one connection to it that is kept.

What a middleware hands over can look right and be wrong on the wire: a length that is not that of
the body, a header twice. Both ends here are strict about it. uvicorn refuses a body of another
length than was announced, http.client reads exactly what was announced, and a connection that is
out of step, or was closed, fails the next request.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from server.wire import Answer

HOST = "127.0.0.1"
ANSWER_S = 10.0
Lines = Sequence[tuple[str, str]]


class Connection:
    """One connection: when it is gone, so is this."""

    def __init__(self, port: int) -> None:
        """Connect, and never again."""
        self._connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S)
        self._connection.connect()
        self._connection.auto_open = 0

    async def post(self, body: bytes = b"{}", *, key: str = '"k"', lines: Lines = ()) -> Answer:
        """Send one request with these header lines besides, and read its answer to the end."""
        return await to_thread.run_sync(self._post, body, [("Idempotency-Key", key), *lines])

    async def send(self, lines: Lines, body: bytes = b"{}") -> Answer:
        """Send one request with these header lines only."""
        return await to_thread.run_sync(self._post, body, lines)

    def _post(self, body: bytes, lines: Lines) -> Answer:
        connection = self._connection
        connection.putrequest("POST", "/pay", skip_accept_encoding=True)
        for name, value in (("Content-Length", str(len(body))), *lines):
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        headers = tuple(
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.getheaders()
        )
        content = response.read()
        return Answer(response.status, headers, content)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@asynccontextmanager
async def connected(app: ASGIApp) -> AsyncIterator[Connection]:
    """Serve an application on a free port; give one connection to it."""
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", interface="asgi3", log_level="critical"
    )
    server = uvicorn.Server(config)
    with contextlib.closing(socket.create_server((HOST, 0))) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            connection = await to_thread.run_sync(Connection, listener.getsockname()[1])
            try:
                yield connection
            finally:
                connection.close()
                server.should_exit = True
