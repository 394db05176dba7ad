"""An HTTP/1.1 server on raw sockets, that breaks connections as its script says: RST, FIN, in TLS
or not, in mid-body, or with an answer that is not encrypted where it should be.

Everything it was sent is kept, so that "no byte has left" can be checked to the byte.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from client.loopback import Received
from client.peers.listener import Listener, end_with_fin, end_with_reset

TICK_S = 0.02
"""How often a server that dribbles or stalls looks whether the client is gone."""


class End(Enum):
    """What becomes of the connection after the bytes of a step were written."""

    KEEP = "keep"
    FIN = "fin"
    RST = "rst"
    CUT = "cut"
    """By a FIN of TCP; within TLS that is an end which nobody has announced (no close_notify)."""
    PLAIN = "plain"
    """TLS is given up: what follows on the same connection is plain text, and a FIN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """What happens to one request."""

    answer: bytes = b""
    plain: bytes = b""
    end: End = End.FIN
    dribble: bytes = b""
    """Sent again and again, every TICK_S, until the client is gone or `dribble_s` are over."""
    dribble_s: float = 2.0
    stall_s: float = 0.0


def answer(status: int = 201, body: bytes = b'{"id": 1}', *, missing: int = 0) -> bytes:
    """Return an answer as it is on the wire; `missing` bytes are promised and do not come."""
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body) + missing}\r\n\r\n"
    return head.encode() + body


WHOLE = Break(answer=answer(), end=End.KEEP)
NO_ANSWER = Break()
RESET = Break(end=End.RST)
RESET_IN_BODY = Break(answer=answer(missing=100), end=End.RST)
CUT_IN_BODY = Break(answer=answer(missing=100), end=End.CUT)
PLAIN_ANSWER = Break(plain=answer(400, b"this is not encrypted"), end=End.PLAIN)
PLAIN_IN_BODY = Break(answer=answer(missing=100), plain=b"x" * 100, end=End.PLAIN)


@dataclass
class FaultyServer:
    """The server's script (the last step repeats), and what it received."""

    scheme: str
    listener: Listener = field(init=False)
    steps: list[Break] = field(default_factory=lambda: [WHOLE])
    received: list[Received] = field(default_factory=list[Received])
    wire: bytearray = field(default_factory=bytearray)
    """Every byte of every connection, after TLS."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/charges") -> str:
        """Return the address of a path."""
        return f"{self.scheme}://127.0.0.1:{self.listener.port}{path}"

    def script(self, *steps: Break) -> None:
        """Say what happens to the requests, in order."""
        self.steps = list(steps)

    def keys(self) -> list[str]:
        """Return the key of every request, in order; each has exactly one."""
        values = [each.values("idempotency-key") for each in self.received]
        assert all(len(each) == 1 for each in values), values
        return [each[0] for each in values]

    def take(self, received: Received) -> Break:
        """Count a request; return what happens to it."""
        with self.lock:
            self.received.append(received)
            return self.steps[min(len(self.received), len(self.steps)) - 1]

    def read(self, connection: socket.socket) -> bytes:
        """Return what has arrived."""
        data = connection.recv(65536)
        with self.lock:
            self.wire += data
        return data


def _serve(server: FaultyServer, connection: socket.socket) -> None:
    unread = b""
    while True:
        while (request := _parse(unread)) is None:
            data = server.read(connection)
            if not data:
                return
            unread += data
        received, unread = request
        step = server.take(received)
        # A client that gives up makes the connection readable.
        if step.stall_s:
            select.select([connection], [], [], step.stall_s)
        if not _carry_out(step, connection):
            return


def _carry_out(step: Break, connection: socket.socket) -> bool:
    """Write and end as the step says; return whether the connection goes on."""
    connection.sendall(step.answer)
    until = time.monotonic() + step.dribble_s
    with suppress(OSError):
        while step.dribble and time.monotonic() < until:
            connection.sendall(step.dribble)
            time.sleep(TICK_S)
    if step.end is End.RST:
        # What was written has to be read first: a RST takes it away.
        time.sleep(TICK_S)
        end_with_reset(connection)
    elif step.end in (End.CUT, End.PLAIN) and isinstance(connection, ssl.SSLSocket):
        with socket.socket(fileno=connection.detach()) as below:
            below.sendall(step.plain)
            end_with_fin(below)
    elif step.end is not End.KEEP and isinstance(connection, ssl.SSLSocket):
        with suppress(OSError):
            connection.unwrap()
    elif step.end is not End.KEEP:
        end_with_fin(connection)
    return step.end is End.KEEP


def _parse(data: bytes) -> tuple[Received, bytes] | None:
    """Return the first request and the bytes after it; None if it has not arrived whole."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    if not blank:
        return None
    line, *fields = head.decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ")
    pairs = (field.partition(":") for field in fields)
    headers = tuple((name, value.strip()) for name, _, value in pairs)
    length = int({name.lower(): value for name, value in headers}.get("content-length", "0"))
    if len(rest) < length:
        return None
    return Received(method, path, headers, rest[:length]), rest[length:]


@contextmanager
def serving_faults(tls: ssl.SSLContext | None = None) -> Iterator[FaultyServer]:
    """Run a server for as long as the block lasts."""
    server = FaultyServer("http" if tls is None else "https")
    server.listener = Listener(partial(_serve, server), tls)
    with server.listener:
        yield server
