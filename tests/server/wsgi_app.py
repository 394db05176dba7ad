"""The ASGI applications of the tests as WSGI applications: the same handlers under both servers.

An application runs in the event loop, so that its gates and hooks are the tests' own; the thread
that was called with the environ passes its messages on, one by one. What it does after its answer
runs in `close()`, which is the place that WSGI has for that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http.client import responses
from typing import IO, cast

from anyio import from_thread, to_thread
from starlette.types import ASGIApp, Message, Scope

from replayfloor.server import ActiveClaim
from replayfloor.server.stores import Connection, Cursor, Parameters, Row
from server.wsgi_server import Environ, StartResponse, WSGIApp, validated


def as_wsgi(app: ASGIApp) -> WSGIApp:
    """Return an ASGI application as a WSGI application; calls and answers are validated."""

    def call(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        return Answer(from_thread.run(_begin, app, environ), start_response)

    return validated(call)


class Running:
    """One request in the event loop; all methods run there."""

    def __init__(self, app: ASGIApp, environ: Environ) -> None:
        self._environ = environ
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._answered, self._closed = False, asyncio.Event()
        self._body_read = False
        self._task = asyncio.ensure_future(self._run(app))

    async def _run(self, app: ASGIApp) -> None:
        try:
            await app(scope_of(self._environ), self._receive, self._send)
        finally:
            if not self._answered:
                self._messages.put_nowait(None)

    async def _receive(self) -> Message:
        if self._body_read:
            await self._closed.wait()
            return {"type": "http.disconnect"}
        self._body_read = True
        return {"type": "http.request", "body": await to_thread.run_sync(body_of, self._environ)}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._answered = True
        self._messages.put_nowait(message)
        if self._answered:
            await self._closed.wait()

    async def next(self) -> Message | None:
        """Return the next message, or None if the application returned without one."""
        message = await self._messages.get()
        if message is None:
            await self._task
        return message

    async def close(self) -> None:
        """Let the application do what it does after its answer; without one, stop it."""
        self._closed.set()
        if self._answered:
            await self._task
        elif not self._task.done():
            self._task.cancel()
            with contextlib.suppress(BaseException):
                await self._task


async def _begin(app: ASGIApp, environ: Environ) -> Running:
    return Running(app, environ)


class Answer:
    """The iterable that the application returns: its body messages as they come."""

    def __init__(self, running: Running, start_response: StartResponse) -> None:
        self._running = running
        self._ended = False
        try:
            self._begin(start_response)
        except BaseException:
            # Nobody is given anything to close.
            self.close()
            raise

    def _begin(self, start_response: StartResponse) -> None:
        start = from_thread.run(self._running.next)
        if start is None:
            self._ended = True
            return
        assert start["type"] == "http.response.start"
        status, headers = start["status"], start.get("headers", ())
        phrase = responses.get(status, "Unheard-Of")
        start_response(f"{status} {phrase}", [(_text(k), _text(v)) for k, v in headers])

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        message = None if self._ended else from_thread.run(self._running.next)
        if message is None:
            raise StopIteration
        self._ended = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    def close(self) -> None:
        from_thread.run(self._running.close)


def body_of(environ: Environ) -> bytes:
    """Read the body as an application may: to its length, or to the end of a chunked one."""
    stream = cast("IO[bytes]", environ["wsgi.input"])
    length = cast("str | None", environ.get("CONTENT_LENGTH"))
    return stream.read(-1 if length is None else int(length))


def scope_of(environ: Environ) -> Scope:
    """Return the environ as an ASGI scope, with the claim where an ASGI handler looks for it."""
    headers = [
        (
            name.removeprefix("HTTP_").replace("_", "-").lower().encode(),
            str(value).encode("latin-1"),
        )
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    ]
    claim = environ.get("replayfloor.claim")
    root = str(environ.get("SCRIPT_NAME", "")).encode("latin-1").decode()
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": environ["REQUEST_METHOD"],
        "scheme": "http",
        "path": root + str(environ.get("PATH_INFO", "")).encode("latin-1").decode(),
        "query_string": str(environ.get("QUERY_STRING", "")).encode("latin-1"),
        "root_path": root,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {} if claim is None else {"idempotency": ClaimView(cast("ActiveClaim", claim))},
        "extensions": {},
    }


def _text(value: bytes) -> str:
    return value.decode("latin-1")


# -- a blocking claim, to be awaited ------------------------------------------------------------


class ClaimView:
    """An ActiveClaim with the awaitable operations of an AsyncActiveClaim."""

    def __init__(self, claim: ActiveClaim) -> None:
        self.claim = claim

    def __getattr__(self, name: str) -> object:
        return getattr(self.claim, name)

    @property
    def connection(self) -> ConnectionView:
        """The connection of the receipt's transaction."""
        return ConnectionView(self.claim.connection)

    async def finish_in(self, connection: object, response: object) -> None:
        """Write the receipt in the handler's transaction."""
        await to_thread.run_sync(self.claim.finish_in, connection, response)


class ConnectionView:
    """A blocking connection whose statements are awaited."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, query: str, params: Parameters | None = None) -> CursorView:
        """Run one statement."""
        return CursorView(await to_thread.run_sync(self._connection.execute, query, params))

    async def commit(self) -> None:
        """End the transaction as only the middleware may."""
        await to_thread.run_sync(cast("Callable[[], None]", self._attribute("commit")))

    async def rollback(self) -> None:
        """End the transaction as only the middleware may."""
        await to_thread.run_sync(cast("Callable[[], None]", self._attribute("rollback")))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Open a savepoint, as psycopg does."""
        with cast(
            "Callable[[], contextlib.AbstractContextManager[None]]", self._attribute("transaction")
        )():
            yield

    def _attribute(self, name: str) -> object:
        return getattr(self._connection, name)


class CursorView:
    """A blocking cursor whose rows are awaited."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    async def execute(self, query: str) -> None:
        """Run another statement, as a cursor of psycopg can."""
        await to_thread.run_sync(cast("Connection", self._cursor).execute, query)

    async def fetchone(self) -> Row | None:
        """Return the next row."""
        return await to_thread.run_sync(self._cursor.fetchone)

    async def fetchall(self) -> Sequence[Row]:
        """Return the rows that are left."""
        return await to_thread.run_sync(self._cursor.fetchall)
