"""An HTTP/1.1 server on the loopback, in a thread, that does to each request what its script says.

It counts before it fails: what it received is known also for requests whose answer it lost.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from replayfloor.core.message import Response

LINGER_S = 0.02
"""How often a slow answer looks whether the server stops."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `delay_s` before it; `cut` promises more bytes than it sends, then hangs up."""

    status: int = 201
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b'{"id": 1}'
    delay_s: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """The request is read and counted, and the connection closed without an answer."""


Step = Reply | Drop

OK = Reply()
DROP = Drop()


def problem(response: Response) -> Reply:
    """Return one of the server's own refusals as an answer."""
    headers = tuple((name.decode(), value.decode()) for name, value in response.headers)
    return Reply(response.status, headers, response.body)


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it was on the wire; header names as they were written."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        """Return every value of a header, whatever its letter case."""
        return [value for field, value in self.headers if field.lower() == name.lower()]


@dataclass
class Loopback:
    """The server's address, scripts by path (the last step repeats), and what was received."""

    port: int = 0
    scripts: dict[str, list[Step]] = field(default_factory=dict[str, list[Step]])
    received: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    stopping: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))

    def url(self, path: str = "/charges") -> str:
        """Return the address of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    def script(self, *steps: Step, path: str = "/charges") -> None:
        """Say what happens to the requests for a path, in order."""
        self.scripts[path] = list(steps)

    def keys(self, name: str = "idempotency-key") -> list[str]:
        """Return the key of every request, in order; each has exactly one."""
        values = [received.values(name) for received in self.received]
        assert all(len(each) == 1 for each in values), values
        return [each[0] for each in values]

    def bodies(self) -> list[bytes]:
        """Return the body of every request, in order."""
        return [received.body for received in self.received]

    def take(self, received: Received) -> Step:
        """Count a request; return what happens to it."""
        with self.lock:
            self.received.append(received)
            count = self.counts[received.path]
            self.counts[received.path] += 1
        steps: Sequence[Step] = self.scripts.get(received.path, [OK])
        return steps[min(count, len(steps) - 1)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: clients that hang up are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def loopback(self) -> Loopback:
        assert isinstance(self.server, _Server)
        return self.server.loopback

    def setup(self) -> None:
        with self.loopback.lock:
            self.loopback.connections += 1
        super().setup()

    def _handle(self) -> None:
        loopback = self.loopback
        received = Received(self.command, self.path, tuple(self.headers.items()), self._read_body())
        match loopback.take(received):
            case Drop():
                self.close_connection = True
            case Reply() as reply:
                until = time.monotonic() + reply.delay_s
                while time.monotonic() < until and not loopback.stopping:
                    time.sleep(min(LINGER_S, reply.delay_s))
                self._answer(reply)

    do_POST = do_PATCH = do_PUT = do_GET = _handle  # noqa: N815

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding") is None:
            return self.rfile.read(int(self.headers.get("content-length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body) + (100 if reply.cut else 0)))
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = self.close_connection or reply.cut

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@contextmanager
def serving() -> Iterator[Loopback]:
    """Run a server for as long as the block lasts."""
    loopback = Loopback()
    server = _Server(loopback)
    loopback.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.stopping = True
        server.shutdown()
        thread.join()
        server.server_close()


def closed_port() -> int:
    """Return a port of the loopback that refuses connections."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
