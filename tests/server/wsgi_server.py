"""A WSGI server for one request at a time, called as an ASGI application: so the same tests drive
both middlewares. `wsgiref.validate` stands between it and what it serves, always."""

from __future__ import annotations

import sys
import wsgiref.validate
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import RunVar
from starlette.types import Message, Receive, Scope, Send

Environ: TypeAlias = dict[str, object]
StartResponse: TypeAlias = Callable[..., Callable[[bytes], object]]
WSGIApp: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

THREADS = 200
"""More than any test sends requests at once: a request that waits for a thread proves nothing."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("server_wsgi_threads")


class ValidatingServer:
    """Serves a WSGI application, each request in a thread of its own."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = validated(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request with it."""
        assert scope["type"] == "http"
        environ = environ_of(scope, RequestStream(receive))
        await to_thread.run_sync(self._serve, environ, send, limiter=_threads())

    def _serve(self, environ: Environ, send: Send) -> None:
        sending = _Sending(send)
        chunks = self._app(environ, sending.start_response)
        try:
            for chunk in chunks:
                sending.write(chunk)
            sending.end()
        finally:
            cast("Callable[[], None]", chunks.close)()  # type: ignore[attr-defined]


def _any_content_type(_status: str, _headers: list[tuple[str, str]]) -> None:
    """Ask for nothing: an answer may have a Content-Type or not, whatever its status (RFC 9110)."""


setattr(wsgiref.validate, "check_content_type", _any_content_type)  # noqa: B010 - not in its stub


def validated(app: WSGIApp) -> WSGIApp:
    """Return an application whose caller and whose answers are held to PEP 3333."""
    return cast("WSGIApp", wsgiref.validate.validator(app))


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter


class _Sending:
    """The answer on its way to the client: headers with the first bytes, or at the end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._begun = False

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: object = None, /
    ) -> Callable[[bytes], None]:
        if exc_info:
            if self._begun:
                raise cast("tuple[object, BaseException, object]", exc_info)[1]
        elif self._start is not None:
            raise AssertionError("start_response was called twice")
        self._start = {
            "type": "http.response.start",
            "status": int(status[:3]),
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers],
        }
        return self.write

    def write(self, chunk: bytes) -> None:
        if chunk:
            self._begin()
            self._message({"type": "http.response.body", "body": chunk, "more_body": True})

    def end(self) -> None:
        self._begin()
        self._message({"type": "http.response.body", "body": b"", "more_body": False})

    def _begin(self) -> None:
        if not self._begun:
            assert self._start is not None, "start_response was never called"
            self._begun = True
            self._message(self._start)

    def _message(self, message: Message) -> None:
        from_thread.run(self._send_in_loop, message)

    async def _send_in_loop(self, message: Message) -> None:
        await self._send(message)


class RequestStream:
    """`wsgi.input` of a request as it arrives; a client that leaves is an OSError, as it is with
    real servers."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._held, self._more = b"", True

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; fewer only at the end."""
        while self._more and (size < 0 or len(self._held) < size):
            self._receive_more()
        end = len(self._held) if size < 0 else size
        taken, self._held = self._held[:end], self._held[end:]
        return taken

    def readline(self, _size: int = -1, /) -> bytes:
        """Return the next line."""
        while self._more and b"\n" not in self._held:
            self._receive_more()
        line, mark, self._held = self._held.partition(b"\n")
        return line + mark

    def readlines(self, _hint: int = -1, /) -> list[bytes]:
        """Return all lines."""
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        """Return the lines one by one."""
        return iter(self.readline, b"")

    async def _receive_in_loop(self) -> Message:
        return await self._receive()

    def _receive_more(self) -> None:
        message = from_thread.run(self._receive_in_loop)
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client has gone")
        self._held += message.get("body", b"")
        self._more = message.get("more_body", False)


def environ_of(scope: Scope, stream: object) -> Environ:
    """Return the environ of a request, as gunicorn makes it: a body without a length is chunked."""
    root: str = scope.get("root_path", "")
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": _native(root),
        "PATH_INFO": _native(scope["path"].removeprefix(root)),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": "test",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": stream,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        variable = name.decode("latin-1").upper().replace("-", "_")
        if variable not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            variable = "HTTP_" + variable
        text = value.decode("latin-1").strip(" \t")
        environ[variable] = f"{environ[variable]},{text}" if variable in environ else text
    if "CONTENT_LENGTH" not in environ:
        environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    return environ


def _native(path: str) -> str:
    return path.encode().decode("latin-1")
