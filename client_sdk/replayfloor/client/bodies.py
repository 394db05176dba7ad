"""Reading bodies, in both colours: the caller's before the first attempt, the answer's inside it.

A body that can be read once is read once and then sent as bytes: sent again as it came, it would
be empty, and the server would accept that.
"""

from __future__ import annotations

from typing import Final

import anyio
import httpx

from replayfloor.client.wire import RESPONSE_BYTES_MAX, AsyncRest, Rest, ends, rebuilt

REQUEST_BYTES_MAX: Final = 16 << 20
"""Bytes of a request that are kept for the attempts to come. Larger ones are uploads; give such
an operation a small request that refers to the upload."""


class BodyTooLarge(Exception):
    """The request's body exceeds REQUEST_BYTES_MAX."""


def read_request(request: httpx.Request) -> bytes:
    """Return the body, and leave it on the request, which may be sent again by an auth flow."""
    _check_length(request)
    stream = request.stream
    if not isinstance(stream, httpx.SyncByteStream):
        raise RuntimeError("a blocking transport cannot read an asynchronous request body")
    body = bytearray()
    for chunk in stream:
        _append(body, chunk)
    request.stream = httpx.ByteStream(bytes(body))
    return bytes(body)


async def read_request_async(request: httpx.Request) -> bytes:
    """Return the body, and leave it on the request, which may be sent again by an auth flow."""
    _check_length(request)
    stream = request.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise RuntimeError("an asynchronous transport cannot read a blocking request body")
    body = bytearray()
    async for chunk in stream:
        _append(body, chunk)
    request.stream = httpx.ByteStream(bytes(body))
    return bytes(body)


def _check_length(request: httpx.Request) -> None:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > REQUEST_BYTES_MAX:
        raise BodyTooLarge(length)


def _append(body: bytearray, chunk: bytes) -> None:
    body += chunk
    if len(body) > REQUEST_BYTES_MAX:
        raise BodyTooLarge(str(len(body)))


def read_response(response: httpx.Response) -> tuple[httpx.Response, bytes | None]:
    """Return the answer, unread, and its raw body; the body is None if it is still arriving.

    An answer that was read to its end, or failed, is closed.
    """
    assert isinstance(response.stream, httpx.SyncByteStream)
    read: list[bytes] = []
    try:
        chunks = iter(response.stream)
        if not ends(response):
            return rebuilt(response, Rest(read, chunks, response)), None
        size = 0
        for chunk in chunks:
            read.append(chunk)
            size += len(chunk)
            if size > RESPONSE_BYTES_MAX:
                return rebuilt(response, Rest(read, chunks, response)), None
    except BaseException:
        response.close()
        raise
    response.close()
    raw = b"".join(read)
    return rebuilt(response, httpx.ByteStream(raw)), raw


async def read_response_async(response: httpx.Response) -> tuple[httpx.Response, bytes | None]:
    """Return the answer, unread, and its raw body; the body is None if it is still arriving.

    An answer that was read to its end, or failed, is closed.
    """
    assert isinstance(response.stream, httpx.AsyncByteStream)
    read: list[bytes] = []
    try:
        chunks = aiter(response.stream)
        if not ends(response):
            return rebuilt(response, AsyncRest(read, chunks, response)), None
        size = 0
        async for chunk in chunks:
            read.append(chunk)
            size += len(chunk)
            if size > RESPONSE_BYTES_MAX:
                return rebuilt(response, AsyncRest(read, chunks, response)), None
    except BaseException:
        await close_async(response)
        raise
    await close_async(response)
    raw = b"".join(read)
    return rebuilt(response, httpx.ByteStream(raw)), raw


async def close_async(response: httpx.Response) -> None:
    """Close an answer, also while the caller is being cancelled: else its connection leaks."""
    with anyio.CancelScope(shield=True):
        await response.aclose()
