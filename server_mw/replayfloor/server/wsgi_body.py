"""What a WSGI server is given to iterate and to close, and answers in the form it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from http import HTTPStatus

from replayfloor.core.message import Headers, Response
from replayfloor.server.perform_common import BODYLESS
from replayfloor.server.wsgi_capture import HeaderList, StartResponse

_PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""Phrases of RFC 9110 (15.5.14, 15.5.21) that Python before 3.13 spells as older texts did."""


NATIVE_KNOWN_MAX = 16
"""Settings whose headers are remembered; a process has one or two middlewares."""


class StreamedBody:
    """A body that is produced while it is sent; what it stands for is closed once."""

    def __init__(self, chunks: Iterable[bytes], close: Callable[[], None]) -> None:
        """Stand for what `close` closes."""
        self._chunks, self._close = chunks, close

    def __iter__(self) -> Iterator[bytes]:
        """Return the chunks."""
        return iter(self._chunks)

    def close(self) -> None:
        """Close what the body stands for (PEP 3333)."""
        close, self._close = self._close, _nothing
        close()


class WholeBody(StreamedBody):
    """A body that is complete. It has a length, from which a server can tell Content-Length."""

    def __init__(self, chunks: list[bytes], close: Callable[[], None]) -> None:
        """Stand for what `close` closes."""
        super().__init__(chunks, close)
        self._count = len(chunks)

    def __len__(self) -> int:
        """Return the number of chunks."""
        return self._count


def chain(held: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    """Return chunks that were held back, and then those that are left."""
    yield from held
    # Not `yield from`: that would close `rest` as well, if it is closed itself.
    for chunk in rest:  # noqa: UP028
        yield chunk


def close_iterable(produced: Iterable[bytes]) -> None:
    """Close what an application returned, if it can be closed."""
    close: object = getattr(produced, "close", None)
    if callable(close):
        close()


def send(response: Response, extra: Headers, start_response: StartResponse) -> list[bytes]:
    """Begin an answer of ours, and return its body."""
    headers = native((*response.headers, *extra))
    if response.status not in BODYLESS:
        headers.append(("content-length", str(len(response.body))))
    start_response(f"{response.status} {_phrase(response.status)}", headers)
    return [response.body] if response.body else []


def native(headers: Headers) -> HeaderList:
    """Return headers in the strings of PEP 3333."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


@lru_cache(NATIVE_KNOWN_MAX)
def native_of_settings(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return the same of headers that every answer has."""
    return tuple(native(headers))


def _phrase(status: int) -> str:
    if status in _PHRASES:
        return _PHRASES[status]
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"


def _nothing() -> None:
    """Close nothing any more."""
