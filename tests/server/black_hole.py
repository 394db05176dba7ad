"""A way to a server on which old connections go dead while new ones work, as after an address was
moved to another machine: no error, no end, no answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024


class BlackHole:
    """Forwards from `port` to a server. Made by `black_hole`."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._dead: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        """Let nothing through any more on the connections that stand now."""
        self._dead.update(self._sockets)

    def close(self) -> None:
        """End everything."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                server = socket.create_connection((HOST, self._upstream_port))
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if source not in self._dead:
                    target.sendall(data)
            if source not in self._dead:
                target.shutdown(socket.SHUT_WR)


@contextmanager
def black_hole(upstream_port: int) -> Iterator[BlackHole]:
    """Forward to a port of this machine until the end of the block."""
    hole = BlackHole(upstream_port)
    yield hole
    hole.close()
