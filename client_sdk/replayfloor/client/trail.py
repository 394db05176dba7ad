"""What of an earlier request a new one continues: an auth flow's repetition, a redirect's hop.

An auth flow sends the same Request object again after a 401. A redirect is a new Request with a
copy of the first one's extensions, so a mark in them leads from each hop to the operation: that is
how a hop is told from a new request, and how the key can be held back from another origin.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from replayfloor.client.effects import Operation
from replayfloor.client.library import Fields

if TYPE_CHECKING:
    import httpx

MARK: Final = "replayfloor.trail"
"""Its name in the extensions of the caller's request."""


Content: TypeAlias = tuple[str, bytes, bytes]
"""What a request says, wherever it goes: method, Content-Type and body. The body itself, which the
request holds anyway: nothing is hashed that is rarely compared."""


def content_of(request: httpx.Request, fields: Fields, body: bytes) -> Content:
    """Return what a request with these headers and this body says."""
    return request.method, fields.get(b"content-type", b""), body


class Trail:
    """The operation that a request began; it has its key since the first attempt."""

    def __init__(self, request: httpx.Request, content: Content, operation: Operation) -> None:
        self._first = weakref.ref(request)
        self._url = request.url  # a value: the request may get another, this one stays what it is
        self._content = content
        self._operation = operation
        self._key: str | None = None

    def is_first(self, request: httpx.Request) -> bool:
        """Return whether this is the request that began it, and not a hop of a redirect."""
        return self._first() is request

    @property
    def operation(self) -> Operation:
        """The operation, with the key that was sent for it; the same object each time."""
        begun = self._operation
        if self._key is not None and (begun.key != self._key or begun.key_yields):
            self._operation = replace(begun, key=self._key, key_yields=False)
        return self._operation

    def knows_key(self, key: str) -> None:
        """Take note of the key that is sent: few requests are continued and ask for it."""
        self._key = key

    def continued(self, request: httpx.Request, content: Content) -> Operation | None:
        """Return the operation, if the request is its own; None if it is not.

        A redirect leads it to another path. A caller may have sent the same Request object with
        another body or to another address, or have copied the extensions to a request of another
        kind. The query of the same Request object may differ: some auth flows sign there.
        """
        if self.is_first(request) and _address(request.url) != _address(self._url):
            return None
        return self.operation if content == self._content else None


def trail_of(request: httpx.Request) -> Trail | None:
    """Return the trail that a request is on."""
    found: object = request.extensions.get(MARK)
    return found if isinstance(found, Trail) else None


def _address(url: httpx.URL) -> tuple[str, str, int | None, bytes]:
    return url.scheme, url.host, url.port, url.raw_path.partition(b"?")[0]
