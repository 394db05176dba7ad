"""Putting our transport around every one that a client has, whatever the library.

A client keeps one transport for each proxy (its mounts), and picks by the address; one that was
left out would send without a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self, cast

from replayfloor.core.errors import ConfigurationError

_TRANSPORT: Final = "_transport"
_MOUNTS: Final = "_mounts"
"""Not public, and the same in every release of httpx and httpx2 that is supported; the tests of the
lowest and the highest would tell."""


class Wraps(Protocol):
    """One of our transports."""

    def beside(self, inner: object, /) -> Self:
        """Return one over another inner transport that shares the journal and everything else."""
        ...


def wrap(client: object, make: Callable[[object], object]) -> None:
    """Replace the client's transports by ours; `make` returns one over an inner transport.

    Raises ConfigurationError; the client is then as it was.
    """
    inner: object = getattr(client, _TRANSPORT, None)
    mounts: object = getattr(client, _MOUNTS, None)
    if inner is None or not isinstance(mounts, Mapping):
        raise ConfigurationError(
            f"no transports are found in {type(client).__name__}: give the transport to it when it "
            "is made"
        )
    ours = cast("Wraps", make(inner))
    wrapped = {
        pattern: None if each is None else ours.beside(each)
        for pattern, each in cast("Mapping[object, object]", mounts).items()
    }
    setattr(client, _TRANSPORT, ours)
    setattr(client, _MOUNTS, wrapped)
