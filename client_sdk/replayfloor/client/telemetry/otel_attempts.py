"""What the span of an attempt says, in the words of OpenTelemetry's conventions for HTTP. Pure.

The address is known without path and query only, so that `url.full` is not among it: no event has
a path, which may name a customer.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from replayfloor.client.events import AttemptEnded, AttemptStarted

_PORTS: Final = {"http": 80, "https": 443}
_EXCEPTION: Final = re.compile(r"(?:status \d+, then )?([A-Za-z_]\w*): ")
"""How the evidence of a failure begins: with the class of its exception."""
_OTHER: Final = "_OTHER"
"""What the conventions call an error whose kind is not known."""


def started_attributes(event: AttemptStarted) -> dict[str, str | int]:
    """Return what is known of an attempt before it is sent."""
    origin = urlsplit(event.origin)
    attributes: dict[str, str | int] = {"http.request.method": event.method}
    if origin.hostname:
        attributes["server.address"] = origin.hostname
    port = origin.port or _PORTS.get(origin.scheme)
    if port is not None:
        attributes["server.port"] = port
    return attributes


def ended_attributes(event: AttemptEnded) -> dict[str, str | int]:
    """Return what is known after it; `error.type` is among it if it failed."""
    attributes: dict[str, str | int] = {}
    if event.status is not None:
        attributes["http.response.status_code"] = event.status
    failure = _failure(event)
    if failure is not None:
        attributes["error.type"] = failure
    return attributes


def _failure(event: AttemptEnded) -> str | None:
    exception = _EXCEPTION.match(event.evidence)
    if event.status is None:
        return exception.group(1) if exception else _OTHER
    return str(event.status) if event.status >= 400 else None
