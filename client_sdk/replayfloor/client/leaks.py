"""Exceptions of the layers beneath an HTTP library that reach its callers although it wraps most.

Which ones there are depends on what is installed; each means that an attempt failed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

import anyio

from replayfloor.client.fence import DeadlinePassed


def _optional(module: str, name: str) -> tuple[type[Exception], ...]:
    try:
        return (cast("type[Exception]", getattr(import_module(module), name)),)
    except ImportError:
        return ()


LEAKS: Final[tuple[type[Exception], ...]] = (
    OSError,  # among them ssl.SSLError
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    *_optional("h11", "ProtocolError"),
    *_optional("h2.exceptions", "H2Error"),
    DeadlinePassed,
)
"""What an inner transport raises besides the library's own: leaks of the layers below, and the
fence."""
