"""An HTTP/2 server (the library h2 on raw sockets) that does to each request what its script says.

It executes, refuses, resets and goes away as RFC 9113 has it, and counts what it executed: the
witness of what was processed, whatever its client believes.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import h2.config
import h2.connection
import h2.events
from h2.errors import ErrorCodes

from client.loopback import Received
from client.peers.listener import Listener, end_with_fin

TICK_S = 0.02
"""So long after an answer's headers does what is no HTTP/2 follow, so that they are read first."""


class Last(Enum):
    """Which streams a GOAWAY says were, or may have been, processed."""

    NONE = "none"
    BELOW = "below"
    """Those before the stream at hand."""
    COVERING = "covering"
    """The stream at hand too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class H2Step:
    """What happens to one request: executed or not, then answer headers, a reset or a GOAWAY."""

    executes: bool = True
    headers: bool = True
    body: bytes = b'{"id": 1}'
    status: int = 201
    ends: bool = True
    reset: ErrorCodes | None = None
    goaway: Last | None = None
    garbage: bytes = b""
    early: bool = False
    """Do it when the headers have arrived, and do not wait for the body."""


H2_OK = H2Step()
REFUSED_STREAM = H2Step(executes=False, headers=False, ends=False, reset=ErrorCodes.REFUSED_STREAM)
GOAWAY_BELOW = H2Step(executes=False, headers=False, ends=False, goaway=Last.BELOW)
GOAWAY_NONE = H2Step(executes=False, headers=False, ends=False, goaway=Last.NONE)
GOAWAY_COVERING = H2Step(headers=False, ends=False, goaway=Last.COVERING)
CANCEL = H2Step(headers=False, ends=False, reset=ErrorCodes.CANCEL)
CANCEL_AFTER_ANSWER = H2Step(ends=False, reset=ErrorCodes.CANCEL)
REFUSED_AFTER_ANSWER = H2Step(ends=False, reset=ErrorCodes.REFUSED_STREAM)
GOAWAY_NONE_AFTER_ANSWER = H2Step(ends=False, goaway=Last.NONE)
GOAWAY_BELOW_AFTER_ANSWER = H2Step(ends=False, goaway=Last.BELOW)


@dataclass(slots=True)
class _Stream:
    """One request while it arrives."""

    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)

    def received(self) -> Received:
        pseudo = dict(self.headers)
        plain = tuple(pair for pair in self.headers if not pair[0].startswith(":"))
        return Received(pseudo[":method"], pseudo[":path"], plain, bytes(self.body))


@dataclass
class H2Server:
    """The server's scripts, and what it received and executed, in order."""

    scheme: str
    listener: Listener = field(init=False)
    steps: list[H2Step] = field(default_factory=lambda: [H2_OK])
    begun: list[int] = field(default_factory=list[int])
    """The stream of every request whose headers arrived."""
    received: list[Received] = field(default_factory=list[Received])
    executed: list[str] = field(default_factory=list[str])
    """The key of every request that was executed; one that was seen before is not, again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/charges") -> str:
        """Return the address of a path."""
        return f"{self.scheme}://127.0.0.1:{self.listener.port}{path}"

    def script(self, *steps: H2Step) -> None:
        """Say what happens to the requests, in order; the last step repeats."""
        self.steps = list(steps)

    def keys(self) -> list[str]:
        """Return the key of every request that arrived whole; each has exactly one."""
        values = [each.values("idempotency-key") for each in self.received]
        assert all(len(each) == 1 for each in values), values
        return [each[0] for each in values]

    def next_step(self) -> H2Step:
        """Return what happens to the next request."""
        return self.steps[min(len(self.received), len(self.steps) - 1)]

    def take(self, received: Received) -> H2Step:
        """Count a request, and its effect; return what else happens to it."""
        with self.lock:
            step = self.next_step()
            self.received.append(received)
            key = "".join(received.values("idempotency-key"))
            if step.executes and key not in self.executed:
                self.executed.append(key)
        return step


class _Connection:
    """One connection: h2's state machine, fed from a socket."""

    def __init__(self, server: H2Server, connection: socket.socket) -> None:
        self.server = server
        self.socket = connection
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.state = h2.connection.H2Connection(config=config)
        self.streams: dict[int, _Stream] = {}
        self.gone = False

    def serve(self) -> None:
        self.state.initiate_connection()
        self.flush()
        while not self.gone and (data := self.socket.recv(65536)):
            for event in self.state.receive_data(data):
                self.hear(event)
                if self.gone:
                    break
            else:
                self.flush()
        if self.gone:
            end_with_fin(self.socket)

    def flush(self) -> None:
        if data := self.state.data_to_send():
            self.socket.sendall(data)

    def hear(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=int(stream_id), headers=list(headers)):
                self.server.begun.append(stream_id)
                texts = [(_text(name), _text(value)) for name, value in headers]
                self.streams[stream_id] = _Stream(texts)
                if self.server.next_step().early:
                    self.act(stream_id)
            case h2.events.DataReceived(stream_id=int(stream_id), data=bytes(data)):
                if stream_id in self.streams:
                    self.streams[stream_id].body += data
                self.state.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
            case h2.events.StreamEnded(stream_id=int(stream_id)) if stream_id in self.streams:
                self.act(stream_id)
            case _:
                pass

    def act(self, stream_id: int) -> None:
        step = self.server.take(self.streams.pop(stream_id).received())
        if step.headers:
            length = str(len(step.body) + (0 if step.ends else 100))
            headers = [(":status", str(step.status)), ("content-length", length)]
            self.state.send_headers(stream_id, headers)
            self.state.send_data(stream_id, step.body, end_stream=step.ends)
            # By itself, so that the client has it before it hears of what follows.
            self.flush()
        if step.reset is not None:
            self.state.reset_stream(stream_id, step.reset)
        if step.goaway is not None:
            last = {Last.NONE: 0, Last.BELOW: stream_id - 2, Last.COVERING: stream_id}
            self.state.close_connection(last_stream_id=last[step.goaway])
            self.gone = True
        self.flush()
        if step.garbage:
            time.sleep(TICK_S)
            self.socket.sendall(step.garbage)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def _serve(server: H2Server, connection: socket.socket) -> None:
    _Connection(server, connection).serve()


@contextmanager
def serving_h2(tls: ssl.SSLContext | None = None) -> Iterator[H2Server]:
    """Run a server: with prior knowledge, or with TLS and whatever ALPN its settings offer."""
    server = H2Server("http" if tls is None else "https")
    server.listener = Listener(partial(_serve, server), tls)
    with server.listener:
        yield server
