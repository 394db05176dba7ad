"""The fence: the last look at the clock, in the transport's trace hook just before the headers.

A request may wait for minutes for a connection of the pool or a TLS handshake. The hook is the
last moment at which it can be held back, and the only witness of whether it left at all: the type
of an exception does not tell (httpcore calls it `send_request_headers.started`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from replayfloor.client.effects import Moment, Send
from replayfloor.client.elapsed import is_late

TraceInfo = Mapping[str, object]
Trace = Callable[[str, TraceInfo], object]
AsyncTrace = Callable[[str, TraceInfo], Awaitable[object]]

_HEADERS = ("http11.send_request_headers", "http2.send_request_headers")


class DeadlinePassed(Exception):
    """Raised by the hook: the headers must not be written any more."""


class Fence:
    """One attempt's fence. `sent` counts the requests that left: httpcore may repeat by itself."""

    def __init__(self, send: Send, look: Callable[[], Moment]) -> None:
        self._send = send
        self._look = look
        self._witnessed = False
        self.sent = 0

    @property
    def maybe_sent(self) -> bool:
        """Whether a byte may have left; a transport that tells nothing is not trusted."""
        return self.sent > 0 or not self._witnessed

    def wrap(self, user: Trace | None) -> Trace:
        """Return the trace hook of a blocking transport; the user's is called first."""

        def trace(name: str, info: TraceInfo) -> None:
            if user is not None:
                user(name, info)
            self._observe(name, info)

        return trace

    def wrap_async(self, user: AsyncTrace | None) -> AsyncTrace:
        """Return the trace hook of an async transport; the user's is called first."""

        async def trace(name: str, info: TraceInfo) -> None:
            if user is not None:
                await user(name, info)
            self._observe(name, info)

        return trace

    def _observe(self, name: str, info: TraceInfo) -> None:
        self._witnessed = True
        event, _, phase = name.rpartition(".")
        # A CONNECT opens a tunnel through a proxy; it is not the request.
        if event not in _HEADERS or _method(info) == b"CONNECT":
            return
        if phase == "started":
            if is_late(self._send, self._look()):
                raise DeadlinePassed("the send deadline passed before the headers were written")
            self.sent += 1
        elif type(info.get("exception")).__name__ == "LocalProtocolError":
            # The headers were refused while they were encoded, before anything was written.
            self.sent -= 1


def _method(info: TraceInfo) -> object:
    return getattr(info.get("request"), "method", None)
