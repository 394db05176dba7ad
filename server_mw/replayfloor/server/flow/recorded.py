"""Settles an execution whose handler wrote the receipt in a transaction of its own. Pure.

Nobody tells whether that transaction was committed, so the first thing is to look. If it was, the
key is finished, and the receipt is the answer. If the claim still stands, it was rolled back, and
the execution is settled as if it had written nothing. If another has the key, the transaction
cannot have been committed: the receipt in it was fenced.
"""

from __future__ import annotations

from replayfloor.core.claims import Claimed, Finished, Release
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow.insist import Interruption, announce, ask, give_way
from replayfloor.server.flow.values import Admitted, Answer, Answered, Recorded, event
from replayfloor.server.policy import Options


def look_up(
    admitted: Admitted,
    captured: Captured,
    recorded: Receipt,
    options: Options,
    interruption: Interruption,
) -> Flow[Answer | None]:
    """Say what to answer, or None if the handler's transaction was rolled back.

    A store that does not answer now is no reason to doubt a handler that has returned: it would
    have raised if its commit had failed.
    """
    try:
        found = yield from ask(admitted, options, interruption)
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from interruption.insist(Release(admitted.id, admitted.fence))
        return Answered(captured)
    if found == Finished(recorded):
        yield from announce(admitted, recorded, options, interruption)
        sent = keep(admitted.fingerprint, captured.response, sensitive=options.sensitive)
        return Answered(captured) if sent == recorded else Recorded(recorded)
    if isinstance(found, Claimed):
        return None
    return (yield from give_way(admitted, interruption))


def look_up_failed(
    admitted: Admitted, recorded: Receipt, options: Options, interruption: Interruption
) -> Flow[bool]:
    """After an exception or a cancellation, say whether the key is settled all the same."""
    try:
        found = yield from ask(admitted, options, interruption)
    except StoreUnavailable as error:
        # The lease ends the claim, if it stands. An exception must not become a receipt here: the
        # handler's own may be there already, or still be on its way.
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from interruption.insist(Release(admitted.id, admitted.fence))
        return True
    if found == Finished(recorded):
        yield from announce(admitted, recorded, options, interruption)
        return True
    return False
