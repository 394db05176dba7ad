"""Running a server of the loopback that decides about its answers itself, and reads no script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from client.loopback import Loopback, _Server

_L = TypeVar("_L", bound=Loopback)

POLL_S = 0.01
"""How often it looks whether it has to end."""


@contextmanager
def running(loopback: _L) -> Iterator[_L]:
    """Serve on a free port for as long as the block lasts; `take` is called for each request."""
    server = _Server(loopback)
    loopback.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.stopping = True
        server.shutdown()
        thread.join()
        server.server_close()
