"""wrap_client for httpx; how it is done is in `wrap`."""

from __future__ import annotations

from typing import TypeVar, Unpack, cast

import httpx

from replayfloor.client.journal import Journal
from replayfloor.client.library_httpx import HTTPX
from replayfloor.client.settings import Profiles, TransportOptions
from replayfloor.client.transport import IdempotentTransport
from replayfloor.client.transport_async import AsyncIdempotentTransport
from replayfloor.client.wrap import wrap
from replayfloor.core.errors import ConfigurationError

_Client = TypeVar("_Client", httpx.Client, httpx.AsyncClient)


def wrap_client(
    client: _Client,
    *,
    profile: Profiles,
    journal: Journal | str,
    **options: Unpack[TransportOptions],
) -> _Client:
    """Put our transport around each one of a client, those of proxies and mounts included.

    Returns the client. For clients that are made elsewhere, by an SDK for example; do it before
    the first request. Arguments as for IdempotentTransport; one journal and one retry budget are
    shared by all. Raises ConfigurationError, and then the client is as it was.
    """
    if isinstance(client, httpx.Client):
        wrap(
            client,
            lambda inner: IdempotentTransport(
                cast("httpx.BaseTransport", inner), profile=profile, journal=journal, **options
            ),
        )
    elif isinstance(client, httpx.AsyncClient):  # pyright: ignore[reportUnnecessaryIsInstance]
        wrap(
            client,
            lambda inner: AsyncIdempotentTransport(
                cast("httpx.AsyncBaseTransport", inner), profile=profile, journal=journal, **options
            ),
        )
    else:
        raise ConfigurationError(HTTPX.mixed(client, httpx.Client))
    return client
