"""The transport for `httpx.AsyncClient`. Nothing is decided here; what it does is in `base_async`.

Its blocking twin, with the description of the arguments, is in `transport`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Unpack

import anyio
import httpx

from replayfloor.client.base_async import AsyncTransportBase
from replayfloor.client.inner import checked
from replayfloor.client.journal import Journal
from replayfloor.client.library_httpx import HTTPX
from replayfloor.client.settings import Profiles, TransportOptions, open_shell


class AsyncIdempotentTransport(AsyncTransportBase, httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`; arguments and promises as for IdempotentTransport.

    Works on asyncio and trio. The journal is called in a worker thread. A call that is cancelled
    ends at once, sends nothing more, and leaves an operation that can be resumed with its
    operation id.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        profile: Profiles,
        journal: Journal | str,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        **options: Unpack[TransportOptions],
    ) -> None:
        inner = httpx.AsyncHTTPTransport() if transport is None else transport
        inner = checked(HTTPX, inner, httpx.AsyncBaseTransport)
        super().__init__(inner, open_shell(HTTPX, profile, journal, **options), sleep)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; see the class."""
        return await self._handle(request)
