"""The client's classes for httpx2; their twins for httpx are in `library_httpx`. Nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replayfloor.client import errors
from replayfloor.client.library import AsyncRest, Errors, Library, Rest

if TYPE_CHECKING:
    # The same surface under another name: for the types, the one that the shared modules speak of.
    import httpcore as core
    import httpx as twin
else:
    import httpcore2 as core
    import httpx2 as twin


class OutcomePending(errors.OutcomePending, twin.HTTPError):
    """OutcomePending of an httpx2 transport."""


class OutcomeUnknown(errors.OutcomeUnknown, twin.HTTPError):
    """OutcomeUnknown of an httpx2 transport."""


class OperationClosed(errors.OperationClosed, twin.HTTPError):
    """OperationClosed of an httpx2 transport."""


class KeyReuseMismatch(errors.KeyReuseMismatch, twin.HTTPError):
    """KeyReuseMismatch of an httpx2 transport."""


class BodyNotReplayable(errors.BodyNotReplayable, twin.HTTPError):
    """BodyNotReplayable of an httpx2 transport."""


class JournalUnavailable(errors.JournalUnavailable, twin.HTTPError):
    """JournalUnavailable of an httpx2 transport."""


class RedirectRefused(errors.RedirectRefused, twin.HTTPError):
    """RedirectRefused of an httpx2 transport."""


class _Rest(Rest, twin.SyncByteStream):
    pass


class _AsyncRest(AsyncRest, twin.AsyncByteStream):
    pass


HTTPX2: Final = Library(
    name="httpx2",
    home="replayfloor.client.httpx2",
    request=twin.Request,
    response=twin.Response,
    bytes_stream=twin.ByteStream,
    sync_stream=twin.SyncByteStream,
    async_stream=twin.AsyncByteStream,
    sync_transport=twin.BaseTransport,
    async_transport=twin.AsyncBaseTransport,
    own_transports=(twin.HTTPTransport, twin.AsyncHTTPTransport),
    transport_error=twin.TransportError,
    read_error=twin.ReadError,
    read_timeout=twin.ReadTimeout,
    decoding_error=twin.DecodingError,
    leaks=(core.ConnectionNotAvailable,),
    never_sent=(twin.PoolTimeout, twin.UnsupportedProtocol),
    permanent=(twin.UnsupportedProtocol, twin.LocalProtocolError),
    rest=_Rest,
    async_rest=_AsyncRest,
    errors=Errors(
        pending=OutcomePending,
        unknown=OutcomeUnknown,
        closed=OperationClosed,
        mismatch=KeyReuseMismatch,
        body=BodyNotReplayable,
        journal=JournalUnavailable,
        redirect=RedirectRefused,
    ),
)
