"""The status lines of the middleware's own answers over WSGI, where an application writes them."""

from __future__ import annotations

from server.wsgi_client import Server, Worker, environ
from server.wsgi_server import Environ, WSGIApp


def status_line(app: WSGIApp, request: Environ) -> str:
    server = Server()
    server.send(app(request, server.start_response))
    return server.status


def test_refusals_have_the_phrases_of_rfc_9110(worker: Worker) -> None:
    """422 and 413 had others before (RFC 9110, 15.5.14 and 15.5.21)."""
    app = worker.protect(worker.answering(), required=True, body_bytes_max=10)

    lines = [
        status_line(app, request)
        for request in (
            environ(),
            environ(b"other"),
            environ(b"x" * 11, key='"large"'),
            environ(key=None),
        )
    ]

    assert lines == [
        "201 Created",
        "422 Unprocessable Content",
        "413 Content Too Large",
        "400 Bad Request",
    ]
    assert worker.rows == 1
