"""The client's classes for httpx; their twins for httpx2 are in `library_httpx2`. Nothing else."""

from __future__ import annotations

from typing import Final

import httpcore as core
import httpx

from replayfloor.client import errors
from replayfloor.client.library import AsyncRest, Errors, Library, Rest


class OutcomePending(errors.OutcomePending, httpx.HTTPError):
    """OutcomePending of an httpx transport."""


class OutcomeUnknown(errors.OutcomeUnknown, httpx.HTTPError):
    """OutcomeUnknown of an httpx transport."""


class OperationClosed(errors.OperationClosed, httpx.HTTPError):
    """OperationClosed of an httpx transport."""


class KeyReuseMismatch(errors.KeyReuseMismatch, httpx.HTTPError):
    """KeyReuseMismatch of an httpx transport."""


class BodyNotReplayable(errors.BodyNotReplayable, httpx.HTTPError):
    """BodyNotReplayable of an httpx transport."""


class JournalUnavailable(errors.JournalUnavailable, httpx.HTTPError):
    """JournalUnavailable of an httpx transport."""


class RedirectRefused(errors.RedirectRefused, httpx.HTTPError):
    """RedirectRefused of an httpx transport."""


class _Rest(Rest, httpx.SyncByteStream):
    pass


class _AsyncRest(AsyncRest, httpx.AsyncByteStream):
    pass


HTTPX: Final = Library(
    name="httpx",
    home="replayfloor.client",
    request=httpx.Request,
    response=httpx.Response,
    bytes_stream=httpx.ByteStream,
    sync_stream=httpx.SyncByteStream,
    async_stream=httpx.AsyncByteStream,
    sync_transport=httpx.BaseTransport,
    async_transport=httpx.AsyncBaseTransport,
    own_transports=(httpx.HTTPTransport, httpx.AsyncHTTPTransport),
    transport_error=httpx.TransportError,
    read_error=httpx.ReadError,
    read_timeout=httpx.ReadTimeout,
    decoding_error=httpx.DecodingError,
    leaks=(core.ConnectionNotAvailable,),
    never_sent=(httpx.PoolTimeout, httpx.UnsupportedProtocol),
    permanent=(httpx.UnsupportedProtocol, httpx.LocalProtocolError),
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
