"""Holds a WSGI application's answer back until it is complete or known to be too large.

`start_response`, `write` and body chunks in, `Captured` out. No decision what happens then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Final, TypeAlias

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers, Response, get_first
from replayfloor.core.receipt import Receipt
from replayfloor.server.effects import Captured
from replayfloor.server.perform_common import BODYLESS
from replayfloor.server.responses import refuse_unsendable

ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
)
HeaderList: TypeAlias = list[tuple[str, str]]
Write: TypeAlias = Callable[[bytes], object]
StartResponse: TypeAlias = Callable[..., Write]


NAMES_KNOWN_MAX: Final = 256
"""Names of headers that are remembered: far more than an application has."""


class Capture:
    """One answer so far. `status` and `headers` are what the application gave, unchanged.

    `decide` is called when an application that pushes its body has pushed too much of it.
    """

    __slots__ = (
        "_body_bytes",
        "_body_bytes_max",
        "_decide",
        "_encoded",
        "_headers_max",
        "_write_through",
        "chunks",
        "complete",
        "headers",
        "status",
    )

    def __init__(self, body_bytes_max: int, headers_max: int, decide: Callable[[], None]) -> None:
        """Hold back at most `body_bytes_max` bytes; keep at most `headers_max` header lines."""
        self.status = ""
        self.headers: HeaderList = []
        self.chunks: list[bytes] = []
        self.complete = False
        self._body_bytes = 0
        self._body_bytes_max, self._headers_max = body_bytes_max, headers_max
        self._decide = decide
        self._write_through: Write | None = None

    def start_response(
        self, status: str, headers: HeaderList, exc_info: ExcInfo | None = None, /
    ) -> Write:
        """Take the application's status and headers (PEP 3333).

        A second call needs an exception. If nothing has been sent, it replaces the answer so far;
        else the exception is raised, so that the server can cut the answer off.
        """
        if exc_info is not None:
            try:
                if self._write_through is not None and exc_info[1] is not None:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # the traceback would hold this frame
            self.chunks, self._body_bytes = [], 0
        elif self.status:
            raise UsageError("start_response was called twice without exc_info (PEP 3333)")
        encoded = [(_name(name), value.encode("latin-1")) for name, value in headers]
        refuse_unsendable([part for pair in encoded for part in pair])
        self.status, self.headers = status, list(headers)
        self._encoded: Headers = tuple([(name.lower(), value) for name, value in encoded])
        return self.write

    def write(self, data: bytes) -> None:
        """Take a chunk of the body from an application that pushes it."""
        if self._write_through is not None:
            self._write_through(data)
        elif self.add(data):
            self._decide()

    def add(self, data: bytes) -> bool:
        """Take a chunk of the body; say whether it is time to decide: there is nothing to wait for.

        That is so if the body is too large, or has no end by its nature: an event stream (WHATWG
        HTML, 9.2).
        """
        self._body_bytes += len(data)
        if data:
            self.chunks.append(data)
        if self._body_bytes > self._body_bytes_max:
            return True
        return _content_type(self.headers).startswith("text/event-stream")

    def pass_through(self, write: Write) -> None:
        """From now on hand what is written to `write`: the answer is being sent."""
        self._write_through = write

    def captured(self, recorded: Receipt | None) -> Captured:
        """Return the answer as far as it was given, and what was `recorded` of it.

        Raises UsageError if it was not begun.
        """
        if not self.status:
            raise UsageError("the application returned without calling start_response")
        status = int(self.status[:3])
        headers = self._encoded
        whole = (
            self.complete
            and self._body_bytes <= self._body_bytes_max
            and len(headers) <= self._headers_max
            and (status in BODYLESS or _has_its_length(headers, self._body_bytes))
        )
        response = Response(status, headers, b"".join(self.chunks))
        return Captured(response, complete=whole, recorded=recorded)


@lru_cache(NAMES_KNOWN_MAX)
def _name(name: str) -> bytes:
    return name.encode("latin-1")


def _content_type(headers: HeaderList) -> str:
    for name, value in headers:
        if name.lower() == "content-type":
            return value.lower()
    return ""


def _has_its_length(headers: Headers, body_bytes: int) -> bool:
    """Whether the body is as long as announced: an answer that was cut off is none to replay."""
    announced = get_first(headers, b"content-length")
    return announced is None or not announced.isdigit() or int(announced) <= body_bytes
