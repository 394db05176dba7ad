"""An HTTP proxy on the loopback: tunnels by CONNECT, forwards plain requests, or refuses both."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from urllib.parse import urlsplit

from client.peers.listener import JOIN_S, Listener


class Mood(Enum):
    """What the proxy does with a connection."""

    WORKS = "works"
    REFUSES = "refuses"
    """It answers `status` and connects to nobody."""
    HANGS_UP = "hangs up"
    """It hangs up without an answer."""
    OPENS_AND_HANGS_UP = "opens and hangs up"
    """It says that the tunnel stands, and hangs up before the first byte of TLS came back."""


@dataclass
class Proxy:
    """The proxy's mood, and the request lines that it has seen."""

    listener: Listener = field(init=False)
    mood: Mood = Mood.WORKS
    status: int = 502
    lines: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.listener.port}"

    def methods(self) -> list[str]:
        """Return the method of every request to the proxy itself."""
        return [line.split(" ")[0] for line in self.lines]


def _serve(proxy: Proxy, connection: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(65536)
        if not data:
            return
        head += data
    line, _, rest = head.partition(b"\r\n")
    proxy.lines.append(line.decode())
    method, target, version = line.decode().split(" ")
    match proxy.mood:
        case Mood.HANGS_UP:
            return
        case Mood.REFUSES:
            reason = f"HTTP/1.1 {proxy.status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            connection.sendall(reason.encode())
            return
        case Mood.OPENS_AND_HANGS_UP:
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            connection.recv(65536)
            return
        case Mood.WORKS:
            pass
    if method == "CONNECT":
        port = int(target.rpartition(":")[2])
        first = b""
    else:
        parts = urlsplit(target)
        port = parts.port or 80
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        first = f"{method} {path} {version}\r\n".encode() + rest
    with socket.create_connection(("127.0.0.1", port)) as onward:
        if method == "CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        onward.sendall(first)
        _relay(connection, onward)


def _relay(left: socket.socket, right: socket.socket) -> None:
    """Pass bytes on in both directions until either side is done."""
    back = threading.Thread(target=_pass_on, args=(right, left), daemon=True)
    back.start()
    _pass_on(left, right)
    back.join(JOIN_S)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving_proxy() -> Iterator[Proxy]:
    """Run a proxy for as long as the block lasts."""
    proxy = Proxy()
    proxy.listener = Listener(partial(_serve, proxy))
    with proxy.listener:
        yield proxy
