"""A worker's loop: take one event after the other, and look for new ones when there is none. Pure.

The same for both interfaces. What becomes of an event is in `apply`.
"""

from __future__ import annotations

from typing import Final

from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.events import EventKind
from replayfloor.server.webhooks.inbox.apply import Limits, apply, tell_of
from replayfloor.server.webhooks.inbox.effects import (
    Go,
    Idle,
    Take,
)

SOON_MS: Final = 50
"""The first pause after the inbox was found empty; the next ones double. An event that was put in
by a transaction which was then about to commit is there by that time."""


def work(limits: Limits) -> Flow[None]:
    """Take and apply events until the worker is told to stop.

    A database that does not answer is told of once, and asked again until it does.
    """
    rest_ms, again = SOON_MS, False
    while (yield from Go()):
        try:
            taken = yield from Take(limits.lease_ms, again)
        except StoreUnavailable as error:
            if not again:
                yield from tell_of(None, EventKind.STORE_UNAVAILABLE, str(error))
            again = True
            yield from Idle(limits.poll_ms)
            continue
        again = False
        if taken is not None:
            yield from apply(taken, limits)
            rest_ms = SOON_MS
        elif (yield from Idle(rest_ms)):
            rest_ms = SOON_MS
        else:
            rest_ms = min(2 * rest_ms, limits.poll_ms)
