"""The request of a WSGI environ: its body is read once, and given back to the application."""

from __future__ import annotations

from contextlib import closing
from typing import IO, TypeAlias, cast

from replayfloor.server import clock
from replayfloor.server.body import BodyReader, ReadBody, read_before, whole_body
from replayfloor.server.body_digest import CHUNK_BYTES
from replayfloor.server.body_target import wsgi_head
from replayfloor.server.effects import (
    BodyTooLarge,
    ClientGone,
    ReadRequest,
    RequestAnswer,
    RequestRead,
)

Environ: TypeAlias = dict[str, object]


class WSGIRequest:
    """Reads the body of one request; whoever has it closes it."""

    def __init__(self, environ: Environ, body_bytes_max: int) -> None:
        """Belong to one request."""
        self._environ, self._body_bytes_max = environ, body_bytes_max
        self._body: ReadBody | None = None

    def read(self, effect: ReadRequest) -> RequestAnswer:
        """Perform ReadRequest, blocking as the server's own stream does."""
        announced = _announced(self._environ)
        if announced is not None and announced > self._body_bytes_max:
            return BodyTooLarge()
        head = wsgi_head(self._environ, with_headers=effect.rule.function is not None)
        # One byte above the limit shows that it is exceeded; no more is asked for.
        ends_at = self._body_bytes_max + 1 if announced is None else announced
        chunk = self._read(ends_at)
        if chunk is not None and len(chunk) == announced:
            self._body = whole_body(head, effect.rule, bytes(chunk))
            return RequestRead(self._body.fingerprint, clock.wall_ms())
        with closing(BodyReader(head, effect.rule)) as reader:
            while chunk:
                if reader.size + len(chunk) > self._body_bytes_max:
                    return BodyTooLarge()
                reader.feed(chunk)
                chunk = self._read(ends_at - reader.size)
            if chunk is None or reader.size < (announced or 0):
                return ClientGone()
            self._body = reader.finish()
        return RequestRead(self._body.fingerprint, clock.wall_ms())

    def _read(self, left: int) -> bytes | None:
        """Return the next bytes, none if there are no more; None if the client is gone."""
        if not left:
            return b""
        try:
            stream = cast("IO[bytes]", self._environ["wsgi.input"])
            return stream.read(min(left, CHUNK_BYTES))
        except OSError:
            # How gunicorn and mod_wsgi tell that the client is gone, or its chunks end.
            return None

    def use(self, body: bytes) -> None:
        """Take a body that was read before: the request's own, or a part of it."""
        self._body = read_before(body)

    def whole(self) -> bytes:
        """Return the body, all of it in memory."""
        if self._body is None:
            raise TypeError("the request has not been read")
        return b"".join(self._body.chunks())

    def restore(self) -> None:
        """Let the application read the body from its beginning, with its length known."""
        if self._body is None:
            raise TypeError("the request has not been read")
        self._environ["wsgi.input"] = self._body.as_file()
        self._environ["CONTENT_LENGTH"] = str(self._body.size)
        self._environ.pop("HTTP_TRANSFER_ENCODING", None)

    def close(self) -> None:
        """Give up the body."""
        if self._body is not None:
            self._body.close()


def _announced(environ: Environ) -> int | None:
    """Return how many bytes may be read; None for a stream that ends by itself.

    Without a length an application must not read (PEP 3333), unless the server says that the
    stream ends where the body does, as it can for a chunked one. A length that is no number is
    taken as none, as every framework does.
    """
    length = str(environ.get("CONTENT_LENGTH") or "")
    if length.isascii() and length.isdigit():
        return int(length)
    return None if environ.get("wsgi.input_terminated") else 0
