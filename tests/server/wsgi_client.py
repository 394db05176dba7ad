"""A WSGI server and its requests, one at a time and in the test's own thread.

For what is about WSGI itself. `wsgiref.validate` stands on both sides of the middleware, as in
`wsgi_server.py`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.backends import Ledger, sqlite_url
from server.wire import Answer
from server.wsgi_server import Environ, StartResponse, WSGIApp, validated

CREATED = [("Content-Type", "text/plain")]


def environ(
    body: bytes = b"{}", *, key: str | None = '"k-1"', path: str = "/pay", **more: object
) -> Environ:
    """Return the environ of a POST. Other variables by name, `_` for `.` in those of wsgi."""
    made: Environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "test",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if key is not None:
        made["HTTP_IDEMPOTENCY_KEY"] = key
    for name, value in more.items():
        made[name.replace("wsgi_", "wsgi.")] = value
    return {name: value for name, value in made.items() if value is not None}


@dataclass
class Server:
    """The server's side of one request. `sent` is what has left, in order."""

    status: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: object = None, /
    ) -> Callable[[bytes], None]:
        """Take status and headers, as PEP 3333 has it."""
        if exc_info is not None and self.sent:
            raise cast("tuple[object, BaseException, object]", exc_info)[1]
        assert exc_info is not None or not self.status
        self.status, self.headers = status, headers
        return self.write

    def write(self, data: bytes) -> None:
        """Send bytes at once."""
        assert self.status
        if data:
            self.sent.append(data)

    def send(self, chunks: Iterable[bytes], stop_after: int | None = None) -> None:
        """Send what an application returned, up to a number of chunks, and close it."""
        try:
            for count, chunk in enumerate(chunks, 1):
                self.write(chunk)
                if count == stop_after:
                    break
        finally:
            cast("Callable[[], None]", getattr(chunks, "close", lambda: None))()

    def answer(self, raised: Exception | None = None) -> Answer:
        """Return the answer as far as it was sent."""
        if not self.status:
            return Answer(500 if raised else 0, (), b"", complete=False, raised=raised)
        headers = tuple((k.encode("latin-1"), v.encode("latin-1")) for k, v in self.headers)
        body = b"".join(self.sent)
        return Answer(int(self.status[:3]), headers, body, raised is None, raised)


def serve(app: WSGIApp, request: Environ | None = None) -> Answer:
    """Serve one request as a server does: 500 if the application fails before it has sent."""
    server = Server()
    try:
        server.send(app(request or environ(), server.start_response))
    except Exception as error:  # noqa: BLE001 - as every server
        return server.answer(error)
    return server.answer()


@dataclass
class Worker:
    """One process's stores on a file, and a ledger beside them."""

    folder: Path
    receipts: SQLiteReceipts = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Make the file."""
        self.receipts = SQLiteReceipts(self.folder / "receipts.db")
        self.ledger = Ledger(sqlite_url(self.folder / "receipts.db"))
        self.ledger.create()

    def raw(self, app: WSGIApp, **options: object) -> WSGIIdempotencyMiddleware:
        """Return the middleware with nothing in between."""
        options.setdefault("receipts", self.receipts)
        options.setdefault("principal", None)
        return cast("Callable[..., WSGIIdempotencyMiddleware]", WSGIIdempotencyMiddleware)(
            app, **options
        )

    def protect(self, app: WSGIApp, **options: object) -> WSGIApp:
        """Return the middleware, validated on both sides."""
        return validated(self.raw(validated(app), **options))

    def answering(
        self, chunks: Iterable[bytes] = (b"done",), status: str = "201 Created"
    ) -> WSGIApp:
        """Return an application that writes a row and answers."""

        def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            self.ledger.write()
            start_response(status, list(CREATED))
            return chunks

        return app

    @property
    def rows(self) -> int:
        """The number of executions."""
        return len(self.ledger.rows())
