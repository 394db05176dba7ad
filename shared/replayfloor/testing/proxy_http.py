"""Where an HTTP/1.1 message ends, and how a connection does, for the fault proxy.

h11 finds the ends; what is forwarded are the bytes as they came, never a message built anew, since
a fault proxy that repairs or reorders a header would hide what it is there to show. What
is done with a message, and when, is not decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import h11

from replayfloor.testing.proxy_plan import Cut

Deliver: TypeAlias = Callable[[bytes], Awaitable[None]]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CHUNK_BYTES = 64 * 1024
"""Read at most this much at a time: the default limit of asyncio's streams."""

HEAD_BYTES_MAX = 64 * 1024
"""The longest head: four times what h11 takes by default, so that the upstream is the one who
refuses a long one."""

REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""A request is kept whole, because it may have to be sent twice; this bounds the memory of it."""


class UpstreamGone(Exception):
    """The upstream refused the connection, or ended it before its answer was complete."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One complete request, as it came.

    `rest` is what the client sent after it (a pipelined request); `last` says that the client
    wants the connection closed after the answer.
    """

    method: bytes
    raw: bytes
    rest: bytes
    last: bool


class MessageScanner:
    """Finds the end of one message in a stream of bytes, and changes none of them."""

    def __init__(self, parser: h11.Connection) -> None:
        self._parser = parser
        self.complete = False
        self.method = b""
        self.rest = b""

    @classmethod
    def of_request(cls) -> Self:
        """Return a scanner for the next request of a client."""
        return cls(h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX))

    @classmethod
    def of_answer(cls, method: bytes) -> Self:
        """Return a scanner for the answer to a request: HEAD and 304 have lengths and no body."""
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "upstream")]))
        parser.send(h11.EndOfMessage())
        return cls(parser)

    @property
    def last(self) -> bool:
        """Whether nothing may follow the message on its connection."""
        return self._parser.their_state is not h11.DONE

    def feed(self, data: bytes) -> bytes:
        """Take what arrived (b"" at the end of the stream); return the part of this message.

        Raises h11.RemoteProtocolError if this is no HTTP, or if the stream ends too early.
        """
        self._parser.receive_data(data)
        while not self.complete:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                return data
            if isinstance(event, h11.Request):
                self.method = event.method
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("the stream ended before the message")
            self.complete = isinstance(event, h11.EndOfMessage)
        self.rest = self._parser.trailing_data[0]
        return data[: len(data) - len(self.rest)]


async def read_request(source: asyncio.StreamReader, start: bytes) -> RawRequest | None:
    """Read one complete request; None if the client went away before its end.

    `start` holds the bytes of it that were read before. Raises h11.RemoteProtocolError.
    """
    scanner, raw = MessageScanner.of_request(), bytearray()
    data = start or await source.read(CHUNK_BYTES)
    while data:
        raw += scanner.feed(data)
        if scanner.complete:
            return RawRequest(scanner.method, bytes(raw), scanner.rest, scanner.last)
        if len(raw) > REQUEST_BYTES_MAX:
            raise h11.RemoteProtocolError(f"a request of more than {REQUEST_BYTES_MAX} bytes")
        data = await source.read(CHUNK_BYTES)
    return None


async def arriving(reader: asyncio.StreamReader) -> bytes:
    """Return what the upstream sent next, b"" at its end. Raises UpstreamGone."""
    try:
        return await reader.read(CHUNK_BYTES)
    except OSError as error:
        raise UpstreamGone from error


async def drop(data: bytes) -> None:
    """Deliver nothing."""


def first(bytes_max: int, deliver: Deliver) -> Deliver:
    """Return the delivery of the first `bytes_max` bytes."""
    left = bytes_max

    async def deliver_first(data: bytes) -> None:
        nonlocal left
        part, left = data[:left], max(0, left - len(data))
        if part:
            await deliver(part)

    return deliver_first


async def hang_up(writer: asyncio.StreamWriter, cut: Cut) -> None:
    """End a connection the given way; never raises."""
    if cut is Cut.RESET:
        # With a linger time of zero, closing discards what is unsent and sends a RST.
        link: socket.socket = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
