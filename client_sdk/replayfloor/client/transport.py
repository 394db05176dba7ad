"""The blocking transport for `httpx.Client`. Nothing is decided here; what it does is in `base`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Unpack

import httpx

from replayfloor.client.base import TransportBase
from replayfloor.client.inner import checked
from replayfloor.client.journal import Journal
from replayfloor.client.library_httpx import HTTPX
from replayfloor.client.settings import Profiles, TransportOptions, open_shell


class IdempotentTransport(TransportBase, httpx.BaseTransport):
    """An httpx transport that sends writes with one key until their outcome is known.

    A call with the same operation id, the same key or the same Request object as an earlier one
    continues that operation; everything else is a new one. Requests that no profile covers pass
    through untouched. A redirect keeps the key at the same origin and with the same method; to
    another origin a write is not sent.

    Args:
        transport: the transport that sends; default `httpx.HTTPTransport()`. It must not retry by
            itself (`retries=0`).
        profile: what the provider remembers, and for how long; or several profiles, of which the
            first that covers a request is used. None if nothing is known: then a request that may
            have been sent is sent again only where the server has shown, in an answer at the same
            path, that it knows keys.
        journal: a journal, or the URL of one (`memory:`, `sqlite:///path`, `postgresql://…`),
            which is then closed with the transport.
        sleep: waits for so many seconds.
        options: see `replayfloor.client.settings.TransportOptions`.

    Raises what `replayfloor.client.errors` lists, the exceptions of httpx if nothing was executed,
    UsageError for a request whose key or options cannot be honoured, and ConfigurationError for
    arguments that cannot.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        profile: Profiles,
        journal: Journal | str,
        sleep: Callable[[float], None] = time.sleep,
        **options: Unpack[TransportOptions],
    ) -> None:
        inner = httpx.HTTPTransport() if transport is None else transport
        inner = checked(HTTPX, inner, httpx.BaseTransport)
        super().__init__(inner, open_shell(HTTPX, profile, journal, **options), sleep)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; see the class."""
        return self._handle(request)
