"""The two HTTP libraries that the transports serve, as one table, and clients on either of them.

httpx2 has httpx's surface under its own name, so that a test is written once, typed as httpx, and
runs on both. What differs between the two is measured where it matters, and nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Final, cast

import httpx
import httpx2
import pytest

import replayfloor.client
import replayfloor.client.httpx2
from client.clients import NO_TLS, PATIENCE_S, FakeTime, Setup
from replayfloor.client import AsyncIdempotentTransport, IdempotentTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One library's classes and exceptions, and our transports for it."""

    name: str
    client: type[httpx.Client]
    async_client: type[httpx.AsyncClient]
    http_transport: type[httpx.HTTPTransport]
    async_http_transport: type[httpx.AsyncHTTPTransport]
    mock_transport: type[httpx.MockTransport]
    request: type[httpx.Request]
    response: type[httpx.Response]
    limits: type[httpx.Limits]
    timeout: type[httpx.Timeout]
    http_error: type[httpx.HTTPError]
    http_status_error: type[httpx.HTTPStatusError]
    transport_error: type[httpx.TransportError]
    connect_error: type[httpx.ConnectError]
    connect_timeout: type[httpx.ConnectTimeout]
    read_error: type[httpx.ReadError]
    read_timeout: type[httpx.ReadTimeout]
    write_error: type[httpx.WriteError]
    pool_timeout: type[httpx.PoolTimeout]
    proxy_error: type[httpx.ProxyError]
    remote_protocol_error: type[httpx.RemoteProtocolError]
    local_protocol_error: type[httpx.LocalProtocolError]
    unsupported_protocol: type[httpx.UnsupportedProtocol]
    transport: type[IdempotentTransport]
    async_transport: type[AsyncIdempotentTransport]


def _stack(library: ModuleType, ours: ModuleType) -> Stack:
    """Return the table of a library; the casts say that it has httpx's surface."""
    return Stack(
        name=library.__name__,
        client=library.Client,
        async_client=library.AsyncClient,
        http_transport=library.HTTPTransport,
        async_http_transport=library.AsyncHTTPTransport,
        mock_transport=library.MockTransport,
        request=library.Request,
        response=library.Response,
        limits=library.Limits,
        timeout=library.Timeout,
        http_error=library.HTTPError,
        http_status_error=library.HTTPStatusError,
        transport_error=library.TransportError,
        connect_error=library.ConnectError,
        connect_timeout=library.ConnectTimeout,
        read_error=library.ReadError,
        read_timeout=library.ReadTimeout,
        write_error=library.WriteError,
        pool_timeout=library.PoolTimeout,
        proxy_error=library.ProxyError,
        remote_protocol_error=library.RemoteProtocolError,
        local_protocol_error=library.LocalProtocolError,
        unsupported_protocol=library.UnsupportedProtocol,
        transport=ours.IdempotentTransport,
        async_transport=ours.AsyncIdempotentTransport,
    )


HTTPX: Final = _stack(httpx, replayfloor.client)
HTTPX2: Final = _stack(httpx2, replayfloor.client.httpx2)
STACKS: Final = (HTTPX, HTTPX2)

on_each_stack = pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
on_each_stack_by_turns = pytest.mark.parametrize(
    "stack",
    [STACKS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in STACKS[1:])],
    ids=lambda stack: stack.name,
)
"""For the bulk: the everyday run takes one library, the slow one the other. What is shared is the
same code, and test_two_libraries.py compares the two every day."""
on_each_loop = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@dataclass(kw_only=True)
class StackSetup(Setup):
    """A `Setup` of either library: how its connections are made, and the transport around them."""

    stack: Stack
    verify: ssl.SSLContext = NO_TLS
    http1: bool = True
    http2: bool = False
    proxy: str | None = None
    connections_max: int = 10
    timeout_s: float = PATIENCE_S
    time: FakeTime = field(default_factory=FakeTime)

    def connections(self) -> httpx.HTTPTransport:
        """Return the library's own transport: the one with the sockets."""
        return self.stack.http_transport(
            verify=self.verify,
            http1=self.http1,
            http2=self.http2,
            proxy=self.proxy,
            trust_env=False,
            limits=self.stack.limits(max_connections=self.connections_max),
        )

    def async_connections(self) -> httpx.AsyncHTTPTransport:
        """The same with await."""
        return self.stack.async_http_transport(
            verify=self.verify,
            http1=self.http1,
            http2=self.http2,
            proxy=self.proxy,
            trust_env=False,
            limits=self.stack.limits(max_connections=self.connections_max),
        )

    @contextmanager
    def client(self, inner: httpx.BaseTransport | None = None) -> Iterator[httpx.Client]:
        """A blocking client: what a process has that has just started."""
        transport = self.stack.transport(
            inner or self.connections(),
            profile=self.profile,
            journal=self.journal,
            retry=self.retry,
            on_event=self.on_event or self.events.append,
            budget=self.budget,
            clock=self.clock or self.time.clock,
            sleep=self.time.sleep,
            random=lambda: 0.5,
        )
        with self.stack.client(transport=transport, timeout=self.timeout_s) as client:
            yield client

    @asynccontextmanager
    async def async_client(
        self, inner: httpx.AsyncBaseTransport | None = None
    ) -> AsyncIterator[httpx.AsyncClient]:
        """The same with await."""
        transport = self.stack.async_transport(
            inner or self.async_connections(),
            profile=self.profile,
            journal=self.journal,
            retry=self.retry,
            on_event=self.on_event or self.events.append,
            budget=self.budget,
            clock=self.clock or self.time.clock,
            sleep=self.time.sleep_async,
            random=lambda: 0.5,
        )
        async with self.stack.async_client(transport=transport, timeout=self.timeout_s) as client:
            yield client


def slots_in_use(inner: httpx.HTTPTransport | httpx.AsyncHTTPTransport) -> int:
    """Return how many connections of a library's pool are neither idle nor closed."""
    pool = cast("httpx.HTTPTransport", inner)._pool
    return sum(
        not (connection.is_idle() or connection.is_closed()) for connection in pool.connections
    )
