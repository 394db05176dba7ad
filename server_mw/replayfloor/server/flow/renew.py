"""Keeps a claim alive while its handler runs. Pure.

The lease says how soon a dead worker is noticed, not how long a handler may take.
"""

from __future__ import annotations

from replayfloor.core.claims import Extend, Renew
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.effects import Pause
from replayfloor.server.events import EventKind
from replayfloor.server.flow.values import Admitted, event
from replayfloor.server.policy import Options

RENEWALS_PER_LEASE = 3
"""Two renewals in a row may fail, and the third is still in time."""


def period_ms(options: Options) -> int:
    """Return the time between two renewals, and before the first."""
    return max(1, options.lease_ms // RENEWALS_PER_LEASE)


def renew(admitted: Admitted, options: Options) -> Flow[None]:
    """Renew now and then until the claim is lost; a shell stops this when the handler has ended.

    Lost means: another fence has it, or the store could not be reached for a whole lease, so that
    another fence may have it.
    """
    missed = 0
    while True:
        try:
            held = yield from Renew(admitted.id, admitted.fence, options.lease_ms)
            missed = 0
        except StoreUnavailable as error:
            yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
            missed += 1
            held = missed < RENEWALS_PER_LEASE
        if not held:
            yield from event(admitted, EventKind.LEASE_LOST)
            return
        # Whether this succeeded does not matter: without the lock, duplicates meet the claim.
        yield from Extend(admitted.id, admitted.fence, options.lease_ms)
        yield from Pause(period_ms(options))
