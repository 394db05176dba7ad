"""How an exception is noted on a span: without the ids that the messages of ours have.

`Span.record_exception` writes message and traceback, and the messages of replayfloor's exceptions
name the operation and sometimes the key, so that the person who reads them can look for it.
"""

from __future__ import annotations

import traceback
from typing import Final

from opentelemetry.trace import Span

from replayfloor.core.errors import IdempotencyError

CHAIN_MAX: Final = 4
"""Exceptions that are noted of one chain of causes: ours, the HTTP library's, its core's, the
system's."""


def note_exceptions(span: Span, raised: BaseException) -> None:
    """Note an exception and what caused it, each as an event of its own."""
    error: BaseException | None = raised
    for _ in range(CHAIN_MAX):
        if error is None:
            return
        span.add_event("exception", _attributes(error))
        error = error.__cause__


def name_of(error: BaseException) -> str:
    """Return the full name of an exception's class."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _attributes(error: BaseException) -> dict[str, str]:
    attributes = {
        "exception.type": name_of(error),
        # The frames alone: what is usually printed beneath them is the message.
        "exception.stacktrace": "".join(traceback.format_tb(error.__traceback__)),
    }
    if not isinstance(error, IdempotencyError):
        attributes["exception.message"] = str(error)
    return attributes
