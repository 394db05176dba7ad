"""What the client needs of its HTTP library, as a value: httpx and httpx2 share everything else.

The two have the same surface under two names, and no class of one is a class of the other. So the
modules here import neither: they are typed as for httpx, and take the classes from the Library of
the transport. The two values are in `library_httpx` and `library_httpx2`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from replayfloor.client.errors import (
    BodyNotReplayable,
    JournalUnavailable,
    KeyReuseMismatch,
    OperationClosed,
    OutcomePending,
    OutcomeUnknown,
    RedirectRefused,
)
from replayfloor.core.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    import httpx


Lines = Sequence[tuple[bytes, bytes]]
"""Header lines with their names in lower case."""

Fields = Mapping[bytes, bytes]
"""Header values by their names in lower case, the lines of one name joined as the library does."""


def lines_of(headers: httpx.Headers) -> Lines:
    """Return the lines of a message's headers.

    In the raw form: the library's own look-up first finds an encoding for all of them.
    """
    return [(name.lower(), value) for name, value in headers.raw]


def fields_of(headers: httpx.Headers) -> Fields:
    """Return the values of a message's headers, to be looked up more than once."""
    raw = headers.raw
    fields = {name.lower(): value for name, value in raw}
    return fields if len(fields) == len(raw) else _joined(raw)


def _joined(raw: Lines) -> Fields:
    fields: dict[bytes, bytes] = {}
    for written, value in raw:
        name = written.lower()
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


def header_of(headers: httpx.Headers, name: bytes) -> bytes:
    """Return the value of a header that is looked at once, its lines joined."""
    return b", ".join([value for field, value in headers.raw if field.lower() == name])


class Rest:
    """What was read of an answer, and then the rest of it as it arrives."""

    def __init__(
        self, read: list[bytes], rest: Iterator[bytes], source: httpx.SyncByteStream
    ) -> None:
        self._read, self._rest, self._source = read, rest, source

    def __iter__(self) -> Iterator[bytes]:
        yield from self._read
        yield from self._rest

    def close(self) -> None:
        """Give the connection back."""
        self._source.close()


class AsyncRest:
    """What was read of an answer, and then the rest of it as it arrives."""

    def __init__(
        self, read: list[bytes], rest: AsyncIterator[bytes], source: httpx.AsyncByteStream
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


class MakesRest(Protocol):
    """The library's stream over a Rest."""

    def __call__(
        self, read: list[bytes], rest: Iterator[bytes], source: httpx.SyncByteStream
    ) -> httpx.SyncByteStream: ...


class MakesAsyncRest(Protocol):
    """The library's stream over an AsyncRest."""

    def __call__(
        self, read: list[bytes], rest: AsyncIterator[bytes], source: httpx.AsyncByteStream
    ) -> httpx.AsyncByteStream: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Our exceptions, each of them also an HTTPError of the library."""

    pending: type[OutcomePending]
    unknown: type[OutcomeUnknown]
    closed: type[OperationClosed]
    mismatch: type[KeyReuseMismatch]
    body: type[BodyNotReplayable]
    journal: type[JournalUnavailable]
    redirect: type[RedirectRefused]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One HTTP library. `home`: the module that has our transports for it."""

    name: str
    home: str
    request: type[httpx.Request]
    response: type[httpx.Response]
    bytes_stream: type[httpx.ByteStream]
    sync_stream: type[httpx.SyncByteStream]
    async_stream: type[httpx.AsyncByteStream]
    sync_transport: type[httpx.BaseTransport]
    async_transport: type[httpx.AsyncBaseTransport]
    own_transports: tuple[type[httpx.BaseTransport] | type[httpx.AsyncBaseTransport], ...]
    """Its own over the network. Of the classes that others make of them less is known."""
    transport_error: type[httpx.TransportError]
    read_error: type[httpx.ReadError]
    read_timeout: type[httpx.ReadTimeout]
    decoding_error: type[httpx.DecodingError]
    leaks: tuple[type[Exception], ...]
    """What escapes of the layer below, although it is not meant to."""
    never_sent: tuple[type[Exception], ...]
    """Raised before a connection is used, and so before a trace hook could see anything."""
    permanent: tuple[type[Exception], ...]
    """Failures that the same request meets again, unless they come of the answer."""
    rest: MakesRest
    async_rest: MakesAsyncRest
    errors: Errors

    def require(self, given: object, kind: type[object]) -> None:
        """Refuse what is not a `kind` of this library; raises ConfigurationError."""
        if not isinstance(given, kind):
            raise ConfigurationError(self.mixed(given, kind))

    def require_request(self, request: object) -> None:
        """Refuse a request that another library's client sends; raises UsageError."""
        if not isinstance(request, self.request):
            raise UsageError(self.mixed(request, self.request))

    def mixed(self, given: object, kind: type[object]) -> str:
        """Return the words for somebody who gave this instead of a `kind` of this library."""
        module = type(given).__module__.partition(".")[0]
        refusal = (
            f"the transports of {self.home} take {self.name}.{kind.__name__}, "
            f"not {module}.{type(given).__name__}"
        )
        if module != self.name and module in _HOMES:
            refusal += f": use the transports of {_HOMES[module]}"
        return refusal


_HOMES: Final = {"httpx": "replayfloor.client", "httpx2": "replayfloor.client.httpx2"}
"""Where the transports for each library are."""
