"""Serves the ledger application in this process until it is told to end; a worker's main function.

Imported before the fork, so everything that a worker needs is imported here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from socketserver import ThreadingMixIn
from typing import cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

import anyio._backends._asyncio  # noqa: F401 - see above, as for the others
import uvicorn
import uvicorn.lifespan.on
import uvicorn.loops.auto
import uvicorn.protocols.http.auto

import replayfloor.server.locks.redis
import replayfloor.server.locks.redis_async
import replayfloor.server.stores.postgres
import replayfloor.server.stores.postgres_async
import replayfloor.server.stores.sqlite
import replayfloor.server.stores.sqlite_async  # noqa: F401
from support.ledger_app import make_app
from support.ledger_wsgi import make_wsgi_app

KEEP_ALIVE_S = 30


def serve(environment: Mapping[str, str], listener: socket.socket) -> None:
    """Serve on a socket that listens already, over ASGI or, if `LEDGER_SIDE` says so, WSGI."""
    if environment.get("LEDGER_SIDE") == "wsgi":
        _serve_wsgi(environment, listener)
    else:
        _serve_asgi(environment, listener)


def _serve_asgi(environment: Mapping[str, str], listener: socket.socket) -> None:
    """Serve with uvicorn.

    `LEDGER_GRACE_S` is how long requests in flight may go on after SIGTERM.
    """
    grace_s = environment.get("LEDGER_GRACE_S")
    config = uvicorn.Config(
        make_app(environment),
        log_level="warning",
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=None if grace_s is None else int(grace_s),
    )
    uvicorn.Server(config).run(sockets=[listener])


class _QuietHandler(WSGIRequestHandler):
    """Does not write a line for every request."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection."""

    daemon_threads = True


def _serve_wsgi(environment: Mapping[str, str], listener: socket.socket) -> None:
    """Serve with the standard library's server, with threads."""
    address = listener.getsockname()
    server = _ThreadingServer(address, _QuietHandler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_name, server.server_port = address
    server.setup_environ()
    server.set_app(cast("WSGIApplication", make_wsgi_app(environment)))
    server.serve_forever()
