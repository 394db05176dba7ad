"""The fence: the last look at the clock, in the transport's trace hook just before the headers.

A request may wait for minutes for a connection of the pool or a TLS handshake. The hook is the
last moment at which it can be held back, and the only witness of whether it left at all: the type
of an exception does not tell (httpcore calls it `send_request_headers.started`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final

from replayfloor.client.effects import Moment, Send
from replayfloor.client.elapsed import is_late

TraceInfo = Mapping[str, object]
Trace = Callable[[str, TraceInfo], object]
AsyncTrace = Callable[[str, TraceInfo], Awaitable[object]]

_REFUSED_STREAM: Final = 0x7
"""The error code of RFC 9113, 7."""

HOOK: Final = "trace"
"""Its name in the extensions of a request."""

_HEADERS = ("http11.send_request_headers", "http2.send_request_headers")
_STARTED: Final = frozenset(f"{event}.started" for event in _HEADERS)
_FAILED: Final = frozenset(f"{event}.failed" for event in _HEADERS)
_WITHDRAWN: Final = "http2.receive_response_headers.failed"
_HEEDED: Final = _STARTED | _FAILED | {_WITHDRAWN}
_STARTED_ONCE: Final = "http11.send_request_headers.started"


class DeadlinePassed(Exception):
    """Raised by the hook: the headers must not be written any more."""


class Fence:
    """One attempt's fence. `sent` counts the requests that left: httpcore may repeat by itself."""

    def __init__(
        self, send: Send, look: Callable[[], Moment], leaving: Callable[[Moment], None] | None
    ) -> None:
        """`leaving` is told when the headers are about to be written; None if nobody wants it."""
        self._send = send
        self._look = look
        self._leaving = leaving
        self._witnessed = False
        self._stream_id: object = None
        self._hooks: MutableMapping[str, object] | None = None
        self.sent = 0

    def leave(self, extensions: MutableMapping[str, object]) -> None:
        """Take the hook out of the request's extensions once there is no more to be told.

        The library looks for it anew at each of ten steps. HTTP/1.1 has none that counts after the
        headers but their own failure, of which the step that has begun still tells. HTTP/2 has:
        what left may be withdrawn, and sent again. For an inner transport that sends a request once
        and uses these very extensions; any other is told of all that it does.
        """
        self._hooks = extensions

    @property
    def maybe_sent(self) -> bool:
        """Whether a byte may have left; a transport that tells nothing is not trusted."""
        return self.sent > 0 or not self._witnessed

    def processed(self, error: BaseException) -> bool:
        """Return False if the server guarantees that it has not processed this request.

        That is a stream that was refused (RFC 9113, 8.7), or one above the last that a server
        which goes away has taken up (RFC 9113, 6.8). httpcore tells it as the cause.
        """
        told = error.__cause__.args if error.__cause__ is not None else ()
        event: object = told[0] if told else None
        if getattr(event, "error_code", None) == _REFUSED_STREAM and hasattr(event, "stream_id"):
            return False
        last = getattr(event, "last_stream_id", None)
        ours = self._stream_id
        return not (isinstance(last, int) and isinstance(ours, int) and ours > last)

    def wrap(self, user: Trace | None) -> Trace:
        """Return the trace hook of a blocking transport; the user's is called first."""
        if user is None:
            return self._observe

        def trace(name: str, info: TraceInfo) -> None:
            user(name, info)
            self._observe(name, info)

        return trace

    def wrap_async(self, user: AsyncTrace | None) -> AsyncTrace:
        """Return the trace hook of an async transport; the user's is called first."""
        if user is None:
            return self._observe_async

        async def trace(name: str, info: TraceInfo) -> None:
            await user(name, info)
            self._observe(name, info)

        return trace

    async def _observe_async(self, name: str, info: TraceInfo) -> None:
        self._observe(name, info)

    def _observe(self, name: str, info: TraceInfo) -> None:
        self._witnessed = True
        if name not in _HEEDED:
            return
        # A CONNECT opens a tunnel through a proxy; it is not the request.
        if name in _STARTED and _method(info) != b"CONNECT":
            moment = self._look_in_time()
            self._stream_id = info.get("stream_id")
            if self._leaving is not None:
                # Who is told may take any time, and only then are the headers written.
                self._leaving(moment)
                self._look_in_time()
            self.sent += 1
            if self._hooks is not None and name == _STARTED_ONCE:
                self._hooks.pop(HOOK, None)
        elif name in _FAILED and _method(info) != b"CONNECT":
            if _failure(info) == "LocalProtocolError":
                # The headers were refused while they were encoded, before anything was written.
                self.sent -= 1
        elif name == _WITHDRAWN and _failure(info) == "ConnectionNotAvailable":
            # The library sends again by itself what the server did not take up: a stream that is
            # above the last one of a server that goes away (RFC 9113, 6.8), before anything of an
            # answer came.
            self.sent -= 1

    def _look_in_time(self) -> Moment:
        moment = self._look()
        if is_late(self._send, moment):
            raise DeadlinePassed("the send deadline passed before the headers were written")
        return moment


def _failure(info: TraceInfo) -> str:
    return type(info.get("exception")).__name__


def _method(info: TraceInfo) -> object:
    return getattr(info.get("request"), "method", None)
