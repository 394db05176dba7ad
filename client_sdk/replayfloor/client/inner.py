"""The transport beneath ours: it must be of the same library, and must not repeat by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from replayfloor.client.library import Library
from replayfloor.core.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T", "httpx.BaseTransport", "httpx.AsyncBaseTransport")

_REPEATERS: Final = frozenset(
    {
        "httpx_retries.transport.RetryTransport",
        "pydantic_ai.retries.TenacityTransport",
        "pydantic_ai.retries.AsyncTenacityTransport",
        "replayfloor.client.transport.IdempotentTransport",
        "replayfloor.client.transport_async.AsyncIdempotentTransport",
        "replayfloor.client.httpx2.IdempotentTransport",
        "replayfloor.client.httpx2.AsyncIdempotentTransport",
    }
)
"""Transports that are known to send a request again by themselves."""


def checked(library: Library, transport: _T, kind: type[object]) -> _T:
    """Return the inner transport; raises ConfigurationError for one that cannot be used.

    What repeats beneath us does so past the send deadline, uncounted, and multiplies the attempts.
    """
    library.require(transport, kind)
    found = next(
        (name for each in type(transport).__mro__ if (name := _name(each)) in _REPEATERS), None
    )
    if found is not None:
        raise ConfigurationError(
            f"{found} sends requests again by itself: give the transport that it wraps"
        )
    retries = getattr(getattr(transport, "_pool", None), "_retries", 0)
    if isinstance(retries, int) and retries > 0:
        raise ConfigurationError(
            f"the inner transport has retries={retries}: give one with retries=0, the attempts are "
            "counted and bounded here"
        )
    return transport


def _name(kind: type[object]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
