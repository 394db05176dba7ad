"""The transports for httpx2, the continuation of httpx: the same promises, the same arguments.

    import httpx2
    from replayfloor.client.httpx2 import IdempotentTransport

    with httpx2.Client(transport=IdempotentTransport(profile=…, journal=…)) as client:
        …

Everything else comes from `replayfloor.client`: profiles, journals, and the exceptions to catch,
which are httpx2.HTTPErrors too when these transports raise them. Classes of the two libraries
cannot be mixed; whoever tries is told.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

import anyio

from replayfloor.client.base import TransportBase
from replayfloor.client.base_async import AsyncTransportBase
from replayfloor.client.inner import checked
from replayfloor.client.journal import Journal
from replayfloor.client.settings import Profiles, TransportOptions, open_shell
from replayfloor.client.wrap import wrap
from replayfloor.core.errors import ConfigurationError

try:
    import httpx2

    from replayfloor.client.library_httpx2 import HTTPX2
except ImportError as error:
    raise ImportError("httpx2 is not installed: pip install 'replayfloor[httpx2]'") from error

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncIdempotentTransport", "IdempotentTransport", "wrap_client"]

_Client = TypeVar("_Client", httpx2.Client, httpx2.AsyncClient)


class IdempotentTransport(TransportBase, httpx2.BaseTransport):
    """`replayfloor.client.IdempotentTransport` for `httpx2.Client`."""

    def __init__(
        self,
        transport: httpx2.BaseTransport | None = None,
        *,
        profile: Profiles,
        journal: Journal | str,
        sleep: Callable[[float], None] = time.sleep,
        **options: Unpack[TransportOptions],
    ) -> None:
        given = httpx2.HTTPTransport() if transport is None else transport
        inner = checked(HTTPX2, cast("httpx.BaseTransport", given), httpx2.BaseTransport)
        super().__init__(inner, open_shell(HTTPX2, profile, journal, **options), sleep)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; see the class."""
        return cast("httpx2.Response", self._handle(cast("httpx.Request", request)))


class AsyncIdempotentTransport(AsyncTransportBase, httpx2.AsyncBaseTransport):
    """`replayfloor.client.AsyncIdempotentTransport` for `httpx2.AsyncClient`."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        profile: Profiles,
        journal: Journal | str,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        **options: Unpack[TransportOptions],
    ) -> None:
        given = httpx2.AsyncHTTPTransport() if transport is None else transport
        inner = checked(HTTPX2, cast("httpx.AsyncBaseTransport", given), httpx2.AsyncBaseTransport)
        super().__init__(inner, open_shell(HTTPX2, profile, journal, **options), sleep)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; see the class."""
        return cast("httpx2.Response", await self._handle(cast("httpx.Request", request)))


def wrap_client(
    client: _Client,
    *,
    profile: Profiles,
    journal: Journal | str,
    **options: Unpack[TransportOptions],
) -> _Client:
    """Put our transport around each one of a client; see `replayfloor.client.wrap_client`."""
    if isinstance(client, httpx2.Client):
        wrap(
            client,
            lambda inner: IdempotentTransport(
                cast("httpx2.BaseTransport", inner), profile=profile, journal=journal, **options
            ),
        )
    elif isinstance(client, httpx2.AsyncClient):  # pyright: ignore[reportUnnecessaryIsInstance]
        wrap(
            client,
            lambda inner: AsyncIdempotentTransport(
                cast("httpx2.AsyncBaseTransport", inner),
                profile=profile,
                journal=journal,
                **options,
            ),
        )
    else:
        raise ConfigurationError(HTTPX2.mixed(client, httpx2.Client))
    return client
