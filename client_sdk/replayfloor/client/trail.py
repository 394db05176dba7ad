"""What of an earlier request a new one continues: an auth flow's repetition, a redirect's hop.

An auth flow sends the same Request object again after a 401. A redirect is a new Request with a
copy of the first one's extensions, so a mark in them leads from each hop to the operation: that is
how a hop is told from a new request, and how the key can be held back from another origin.
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from replayfloor.client.effects import Operation

if TYPE_CHECKING:
    import httpx

MARK: Final = "replayfloor.trail"
"""Its name in the extensions of the caller's request."""


class Trail:
    """The operation that a request began; it has its key since the first attempt."""

    def __init__(self, request: httpx.Request, body: bytes, operation: Operation) -> None:
        self._first = weakref.ref(request)
        self._address = _address(request)
        self._digest = _digest(request, body)
        self.operation = operation

    def is_first(self, request: httpx.Request) -> bool:
        """Return whether this is the request that began it, and not a hop of a redirect."""
        return self._first() is request

    def knows_key(self, key: str) -> None:
        """Take note of the key that is sent."""
        self.operation = replace(self.operation, key=key, key_yields=False)

    def continued(self, request: httpx.Request, body: bytes) -> Operation | None:
        """Return the operation, if the request is its own; None if it is not.

        A redirect leads it to another path. A caller may have sent the same Request object with
        another body or to another address, or have copied the extensions to a request of another
        kind. The query of the same Request object may differ: some auth flows sign there.
        """
        if self.is_first(request) and _address(request) != self._address:
            return None
        return self.operation if _digest(request, body) == self._digest else None


def trail_of(request: httpx.Request) -> Trail | None:
    """Return the trail that a request is on."""
    found = cast("dict[str, object]", request.extensions).get(MARK)
    return found if isinstance(found, Trail) else None


def _address(request: httpx.Request) -> tuple[str, str, int | None, bytes]:
    url = request.url
    return url.scheme, url.host, url.port, url.raw_path.partition(b"?")[0]


def _digest(request: httpx.Request, body: bytes) -> bytes:
    media_type = request.headers.get("content-type", "").encode()
    return hashlib.sha256(b"\n".join((request.method.encode(), media_type, body))).digest()
