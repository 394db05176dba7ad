"""Holds an application's answer back until it is complete or known to be too large.

ASGI messages in, `Captured` out. No decision what happens then, no sending.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from starlette.types import Message

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers, Response, get_first
from replayfloor.core.receipt import Receipt
from replayfloor.server.effects import Captured
from replayfloor.server.responses import refuse_unsendable


class Capture:
    """The messages of one answer so far. `messages` is what the application sent, unchanged."""

    __slots__ = (
        "_body_bytes",
        "_body_bytes_max",
        "_chunks",
        "_complete",
        "_endless",
        "_headers",
        "_headers_max",
        "_start",
        "messages",
    )

    def __init__(self, body_bytes_max: int, headers_max: int) -> None:
        """Hold back at most `body_bytes_max` bytes; keep at most `headers_max` header lines."""
        self.messages: list[Message] = []
        self._chunks: list[bytes] = []
        self._body_bytes_max, self._headers_max = body_bytes_max, headers_max
        self._body_bytes = 0
        self._complete = False
        self._endless = False
        self._start: Message | None = None
        self._headers: Headers = ()

    def add(self, message: Message) -> bool:
        """Take a message; say whether it is time to decide: the end, or too much."""
        kind = message["type"]
        if kind == "http.response.body":
            self.messages.append(message)
            chunk: bytes = message.get("body", b"")
            self._chunks.append(chunk)
            self._body_bytes += len(chunk)
            self._complete = not message.get("more_body", False)
            return self._complete or self._endless or self._body_bytes > self._body_bytes_max
        if kind == "http.response.start":
            # Headers may be any iterable (ASGI 3.0), also one that can be read only once.
            pairs = list(message.get("headers", ()))
            message = {**message, "headers": pairs}
            self._headers = _headers(pairs)
            self._endless = _is_event_stream(self._headers)
            self._start = message
            self.messages.append(message)
            return False
        self.messages.append(message)
        # Before the start: a hint, which is no part of the answer. After it: an extension sends
        # the body by other means, so it can never be seen here.
        return self._start is not None

    def captured(self, recorded: Receipt | None = None) -> Captured:
        """Return the answer as far as it was sent; `recorded` is the receipt of the handler."""
        if self._start is None:
            raise UsageError("the application sent a body before http.response.start")
        headers = self._headers
        whole = (
            self._complete
            and self._body_bytes <= self._body_bytes_max
            and len(headers) <= self._headers_max
        )
        response = Response(int(self._start["status"]), headers, b"".join(self._chunks))
        return Captured(response, complete=whole, recorded=recorded)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    # What is bytes already, as nearly always, is not given to a constructor.
    headers = tuple(
        [
            (
                name.lower() if type(name) is bytes else bytes(name).lower(),
                value if type(value) is bytes else bytes(value),
            )
            for name, value in pairs
        ]
    )
    refuse_unsendable([part for pair in headers for part in pair])
    return headers


def _is_event_stream(headers: Headers) -> bool:
    """Whether the answer is one that has no end to wait for (WHATWG HTML, 9.2)."""
    content_type = get_first(headers, b"content-type")
    return content_type is not None and content_type.lower().startswith(b"text/event-stream")


def without_body_extensions(extensions: object) -> dict[str, object]:
    """Return the server's ASGI extensions without those that bypass body messages.

    An application that sees them might hand over a file by name or descriptor, or trailers; then
    there would be nothing to keep. Without them it sends the same body in messages.
    """
    if not isinstance(extensions, dict):
        return {}
    offered = cast("dict[str, object]", extensions)
    return {name: value for name, value in offered.items() if name not in _BYPASSING}


_BYPASSING: Final = frozenset(
    {"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"}
)
