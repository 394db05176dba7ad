"""Reading bodies, in both colours: the caller's before the first attempt, the answer's inside it.

A body that can be read once is read once and then sent as bytes: sent again as it came, it would
be empty, and the server would accept that. An answer that was read inside the retry loop is whole
again for the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import anyio

from replayfloor.client.library import Fields, header_of
from replayfloor.core.fingerprint import media_type_of

if TYPE_CHECKING:
    import httpx

    from replayfloor.client.library import Library

REQUEST_BYTES_MAX: Final = 16 << 20
"""Bytes of a request that are kept for the attempts to come. Larger ones are uploads; give such
an operation a small request that refers to the upload."""

RESPONSE_BYTES_MAX: Final = 1 << 20
"""Bytes of an answer read inside the retry loop. A body that breaks off below it is attempted
again; a larger one is passed on as it arrives, and breaking off is the caller's to see."""

_ENDLESS: Final = b"text/event-stream"
"""The media type of an answer whose end cannot be waited for."""


class BodyTooLarge(Exception):
    """The request's body exceeds REQUEST_BYTES_MAX."""


def read_request(library: Library, request: httpx.Request) -> bytes:
    """Return the body, and leave it on the request, which may be sent again by an auth flow."""
    stream = request.stream
    if type(stream) is library.bytes_stream:
        return _whole(stream)
    _check_length(request)
    if not isinstance(stream, library.sync_stream):
        raise RuntimeError("a blocking transport cannot read an asynchronous request body")
    body = bytearray()
    for chunk in stream:
        _append(body, chunk)
    request.stream = library.bytes_stream(bytes(body))
    return bytes(body)


async def read_request_async(library: Library, request: httpx.Request) -> bytes:
    """Return the body, and leave it on the request, which may be sent again by an auth flow."""
    stream = request.stream
    if type(stream) is library.bytes_stream:
        return _whole(stream)
    _check_length(request)
    if not isinstance(stream, library.async_stream):
        raise RuntimeError("an asynchronous transport cannot read a blocking request body")
    body = bytearray()
    async for chunk in stream:
        _append(body, chunk)
    request.stream = library.bytes_stream(bytes(body))
    return bytes(body)


def _whole(stream: Iterable[bytes]) -> bytes:
    body = b"".join(stream)
    if len(body) > REQUEST_BYTES_MAX:
        raise BodyTooLarge(str(len(body)))
    return body


def _check_length(request: httpx.Request) -> None:
    length = header_of(request.headers, b"content-length")
    if length.isdigit() and int(length[:20]) > REQUEST_BYTES_MAX:
        raise BodyTooLarge(length.decode("ascii"))


def _append(body: bytearray, chunk: bytes) -> None:
    body += chunk
    if len(body) > REQUEST_BYTES_MAX:
        raise BodyTooLarge(str(len(body)))


def read_response(
    library: Library, response: httpx.Response, first: Fields, is_late: Callable[[], bool]
) -> tuple[httpx.Response, bytes | None]:
    """Return the answer, unread, and its raw body; the body is None if it is still arriving.

    An answer that was read to its end, or failed, is closed. `first` are its fields, of several
    lines the first. `is_late` is asked at every chunk but one that completes the announced length:
    a body that dribbles trips no time-out of the library.
    """
    source = response.stream
    assert isinstance(source, library.sync_stream)
    read: list[bytes] = []
    try:
        chunks = iter(source)
        if media_type_of(first.get(b"content-type", b"")) == _ENDLESS:
            return _rebuilt(library, response, library.rest(read, chunks, source)), None
        size, late, length = 0, False, first.get(b"content-length")
        for chunk in chunks:
            if late:
                raise library.read_timeout("the answer took longer than the call may take")
            read.append(chunk)
            size += len(chunk)
            # What has arrived counts, and this may be all of it. An empty chunk completes nothing.
            late = (b"%d" % size != length or not chunk) and is_late()
            if size > RESPONSE_BYTES_MAX:
                return _rebuilt(library, response, library.rest(read, chunks, source)), None
    except BaseException:
        response.close()
        raise
    source.close()
    raw = b"".join(read)
    return _rebuilt(library, response, library.bytes_stream(raw)), raw


async def read_response_async(
    library: Library, response: httpx.Response, first: Fields, is_late: Callable[[], bool]
) -> tuple[httpx.Response, bytes | None]:
    """Return the answer, unread, and its raw body; the body is None if it is still arriving.

    An answer that was read to its end, or failed, is closed. `first` are its fields, of several
    lines the first. `is_late` is asked at every chunk but one that completes the announced length:
    a body that dribbles trips no time-out of the library.
    """
    source = response.stream
    assert isinstance(source, library.async_stream)
    read: list[bytes] = []
    try:
        chunks = aiter(source)
        if media_type_of(first.get(b"content-type", b"")) == _ENDLESS:
            return _rebuilt(library, response, library.async_rest(read, chunks, source)), None
        size, late, length = 0, False, first.get(b"content-length")
        async for chunk in chunks:
            if late:
                raise library.read_timeout("the answer took longer than the call may take")
            read.append(chunk)
            size += len(chunk)
            # What has arrived counts, and this may be all of it. An empty chunk completes nothing.
            late = (b"%d" % size != length or not chunk) and is_late()
            if size > RESPONSE_BYTES_MAX:
                return _rebuilt(library, response, library.async_rest(read, chunks, source)), None
    except BaseException:
        await close_async(response)
        raise
    with anyio.CancelScope(shield=True):
        await source.aclose()
    raw = b"".join(read)
    return _rebuilt(library, response, library.bytes_stream(raw)), raw


def _rebuilt(
    library: Library,
    response: httpx.Response,
    stream: httpx.SyncByteStream | httpx.AsyncByteStream,
) -> httpx.Response:
    """Return an unread answer over another stream: `elapsed`, decoding and iterating work on it.

    It is the one that came, with the stream exchanged: only its stream was read and closed, which
    the answer itself does not know. Unless somebody below has read it as an answer: then it would
    refuse to be read again, and is made anew.
    """
    if not (response.is_closed or response.is_stream_consumed):
        response.stream = stream
        return response
    return library.response(
        response.status_code,
        headers=response.headers.raw,
        stream=stream,
        extensions=dict(response.extensions),
    )


async def close_async(response: httpx.Response) -> None:
    """Close an answer, also while the caller is being cancelled: else its connection leaks."""
    with anyio.CancelScope(shield=True):
        await response.aclose()
