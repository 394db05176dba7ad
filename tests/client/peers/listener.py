"""Accepts connections on the loopback, each in a thread of its own. Knows no protocol but TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

JOIN_S = 5.0
"""How long a connection may last after its client is done with it."""
LINGER_NOT_AT_ALL = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
"""struct linger {1, 0}: closing sends a RST instead of a FIN."""


class Listener:
    """Calls `serve` for each connection, in a thread. `accepted` counts them."""

    def __init__(
        self, serve: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None
    ) -> None:
        self._serve = serve
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = int(self._socket.getsockname()[1])
        self.accepted = 0
        self._mark: object = None
        self._marked = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def settle(self) -> None:
        """Wait until every connection has ended: then all that was sent has been received."""
        self._accept_all()
        for thread in list(self._threads):
            thread.join(JOIN_S)
            assert not thread.is_alive(), "a connection was left open"

    def _accept_all(self) -> None:
        """Wait until what has connected is accepted: a connection of our own comes after it."""
        if not self._accepting.is_alive():
            return
        with socket.socket() as mark:
            mark.bind(("127.0.0.1", 0))
            self._mark = mark.getsockname()
            mark.connect(("127.0.0.1", self.port))
            assert self._marked.wait(JOIN_S)
            self._marked.clear()

    def cut(self) -> None:
        """End every connection there is, by a FIN."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def refuse(self) -> None:
        """Accept no further connection: they are refused from now on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join(JOIN_S)

    def close(self) -> None:
        """Stop accepting, and end what is still open."""
        self.refuse()
        self.cut()
        self.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, address = self._socket.accept()
            except OSError:
                return
            if address == self._mark:
                accepted.close()
                self._marked.set()
                continue
            self.accepted += 1
            thread = threading.Thread(target=self._handle, args=(accepted,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _handle(self, accepted: socket.socket) -> None:
        # Clients that hang up are what the tests are about.
        with suppress(OSError), accepted:
            served = accepted
            if self._tls is not None:
                served = self._tls.wrap_socket(accepted, server_side=True)
            with served:
                with self._lock:
                    self._open.add(served)
                try:
                    self._serve(served)
                finally:
                    with self._lock:
                        self._open.discard(served)


def end_with_fin(connection: socket.socket) -> None:
    """Say that no more comes, and wait until the other side says the same."""
    connection.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        while connection.recv(65536):
            pass


def end_with_reset(connection: socket.socket) -> None:
    """Close with a RST: what was not read yet on the other side is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT_AT_ALL)
    connection.close()
