"""The options of the inbox in Postgres, and its channel. No I/O."""

from __future__ import annotations

from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.stores.inbox import ONLY_POSTGRES
from replayfloor.server.stores.postgres_options import PostgresOptions

POOL_SPARE: Final = 2
"""Connections beside those that handlers hold, for looking, renewing and settling. Each of these is
a round trip, so two keep up with any number of workers."""

WORKERS_MAX: Final = 200
"""A worker may hold a connection for as long as its handler runs; Postgres allows 100 in all
unless told otherwise, and beyond this number it is a mistake."""

CHANNEL: Final = "replayfloor_inbox"
"""What inbox_put_v1 notifies; the payload is the beginning of the namespace."""

PAYLOAD_CHARS: Final = 100
"""Of a namespace; what shares them is woken in vain, and finds nothing."""


def inbox_options(url: str, *, workers: int, operation_s: float) -> PostgresOptions:
    """Return the options, if they can be honoured. Raises ConfigurationError."""
    if url.startswith("sqlite:"):
        raise ConfigurationError(ONLY_POSTGRES)
    if not 1 <= workers <= WORKERS_MAX:
        raise ConfigurationError(f"workers={workers}: expected 1 to {WORKERS_MAX}")
    return PostgresOptions.check(
        url, pool_connections=POOL_SPARE, handler_connections=workers, operation_s=operation_s
    )


def is_for(payload: str, namespace: str) -> bool:
    """Say whether a notification may tell of an event of the namespace."""
    return payload == namespace[:PAYLOAD_CHARS]
