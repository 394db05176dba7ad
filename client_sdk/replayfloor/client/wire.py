"""Between httpx's messages and the flow's values: requests out, answers and failures in.

Reading a request's body, one fresh request per attempt, and an answer that was read inside the
retry loop and is whole again for the caller. No decisions about retrying.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final, TypeAlias, cast

import anyio
import httpx

from replayfloor.client.effects import Failure, Operation, Reply, Send
from replayfloor.client.fence import AsyncTrace, DeadlinePassed, Fence, Trace
from replayfloor.client.options import EXTENSION, choose_key, read_options, write_body, write_fields
from replayfloor.client.profiles import Profile
from replayfloor.core.fingerprint import fingerprint
from replayfloor.core.message import Response, get_first
from replayfloor.core.problem import MEDIA_TYPE

TRANSPORT_ERRORS: Final = (
    httpx.TransportError,
    OSError,  # among them ssl.SSLError, which httpx lets through
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    DeadlinePassed,
)
"""What an inner transport raises when it fails, the leaks of the layers below included."""

_NEVER_SENT: Final = (httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""Raised before a connection is used, and so before a trace hook could see anything."""

_PERMANENT: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, DeadlinePassed)
"""Failures that the same request meets again."""

_TIMEOUTS: Final = ("connect", "read", "write", "pool")

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]


def read_operation(
    request: httpx.Request, body: bytes, profile: Profile, remembered: str | None
) -> Operation:
    """Return the logical request behind a request; `remembered` is the key it was sent with.

    Raises UsageError, InvalidKey among them.
    """
    options = read_options(request.extensions.get(EXTENSION))
    name = profile.header.lower().encode()
    lines = [value for field, value in request.headers.raw if field.lower() == name]
    key = choose_key(lines, options.get("key"), profile, body)
    path, _, query = request.url.raw_path.partition(b"?")
    return Operation(
        method=request.method.upper(),
        origin=_origin(request.url),
        path=path.decode("ascii"),
        fingerprint=fingerprint(
            method=request.method,
            path=path,
            query=query,
            content_type=request.headers.get("content-type", "").encode(),
            body=body,
        ),
        operation_id=options.get("operation_id"),
        key=key if key is not None or "operation_id" in options else remembered,
    )


def _origin(url: httpx.URL) -> str:
    port = f":{url.port}" if url.port is not None else ""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{port}"


def build_attempt(
    request: httpx.Request, body: bytes, send: Send, profile: Profile, trace: Trace | AsyncTrace
) -> httpx.Request:
    """Return a request of our own for one attempt: the same bytes, the key, the fence.

    Nothing is written to the caller's request: httpx copies its headers and extensions to the
    target of a redirect, and the key must not follow.
    """
    body = write_body(body, send.key, profile)
    written = write_fields(send.key, send.first_attempt_at_ns, profile)
    ours = {b"content-length", b"transfer-encoding", *(name.lower() for name, _ in written)}
    headers = [pair for pair in request.headers.raw if pair[0].lower() not in ours]
    headers.append((b"Content-Length", str(len(body)).encode()))
    headers.extend(written)
    extensions = {name: each for name, each in request.extensions.items() if name != EXTENSION}
    given = cast("dict[str, float | None]", extensions.get("timeout") or {})
    extensions["timeout"] = {
        name: send.timeout_s if (limit := given.get(name)) is None else min(limit, send.timeout_s)
        for name in _TIMEOUTS
    }
    extensions["trace"] = trace
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        stream=httpx.ByteStream(body),
        extensions=extensions,
    )


def as_httpx(error: Exception) -> Exception:
    """Return the exception as one of httpx's: what leaks from the layers below is a read error."""
    if isinstance(error, httpx.TransportError | DeadlinePassed):
        return error
    wrapped = httpx.ReadError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def to_failure(error: Exception, fence: Fence, status: int | None) -> Failure:
    """Return what the flow has to know of an exception; `status`: the answer that broke off."""
    sure = isinstance(error, (*_NEVER_SENT, DeadlinePassed))
    evidence = f"{type(error).__name__}: {error}"
    return Failure(
        evidence if status is None else f"status {status}, then {evidence}",
        maybe_sent=fence.sent > 0 if sure else fence.maybe_sent,
        transient=not isinstance(error, _PERMANENT),
        fenced=isinstance(error, DeadlinePassed),
    )


def to_reply(response: httpx.Response, raw: bytes, profile: Profile) -> Reply:
    """Return what the flow has to know of an answer: of bodies, a problem's, and error codes."""
    headers = tuple((name.lower(), value) for name, value in response.headers.raw)
    media_type = (get_first(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    codes = profile.answers.reads_bodies and response.status_code >= 400 and b"json" in media_type
    body = decoded(response, raw) if codes or media_type == MEDIA_TYPE.encode() else b""
    return Reply(Response(response.status_code, headers, body))


def decoded(response: httpx.Response, raw: bytes) -> bytes:
    """Return the body without its content coding; empty if it is not coded as it says."""
    try:
        return httpx.Response(200, headers=response.headers, content=raw).content
    except httpx.DecodingError:
        return b""


# -- the answer, read and whole again -------------------------------------------------------------


RESPONSE_BYTES_MAX: Final = 1 << 20
"""Bytes of an answer read inside the retry loop. A body that breaks off below it is attempted
again; a larger one is passed on as it arrives, and breaking off is the caller's to see."""

_ENDLESS: Final = "text/event-stream"


def ends(response: httpx.Response) -> bool:
    """Return whether an answer's end can be waited for. An event stream's cannot."""
    return not response.headers.get("content-type", "").lower().startswith(_ENDLESS)


def rebuilt(
    response: httpx.Response, stream: httpx.SyncByteStream | httpx.AsyncByteStream
) -> httpx.Response:
    """Return an unread answer over another stream: `elapsed`, decoding and iterating work on it."""
    return httpx.Response(
        response.status_code,
        headers=response.headers.raw,
        stream=stream,
        extensions=dict(response.extensions),
    )


class Rest(httpx.SyncByteStream):
    """What was read of an answer, and then the rest of it as it arrives."""

    def __init__(self, read: list[bytes], rest: Iterator[bytes], source: httpx.Response) -> None:
        self._read, self._rest, self._source = read, rest, source

    def __iter__(self) -> Iterator[bytes]:
        yield from self._read
        yield from self._rest

    def close(self) -> None:
        """Give the connection back."""
        self._source.close()


class AsyncRest(httpx.AsyncByteStream):
    """What was read of an answer, and then the rest of it as it arrives."""

    def __init__(
        self, read: list[bytes], rest: AsyncIterator[bytes], source: httpx.Response
    ) -> None:
        self._read, self._rest, self._source = read, rest, source

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._read:
            yield chunk
        async for chunk in self._rest:
            yield chunk

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._source.aclose()
