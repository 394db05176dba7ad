"""A reconciler at the end of a course: it settles what is unknown, by what really happened."""

from __future__ import annotations

from datetime import UTC, datetime

from replayfloor.core.claims import Abandon, Claim, Fence, Finish, Renew
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.message import Response
from replayfloor.server.effects import Emit
from replayfloor.server.flow.reconcile import settle_orphan
from replayfloor.server.verdicts import Applied, Ask, NotApplied, Orphan
from replayfloor.testing.server_process import REQUEST
from replayfloor.testing.world import World

RECONCILED = Response(201, (), b"reconciled")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SETTLE_MS = 1000


def settle_in(world: World, id_: ReceiptId, request: Fingerprint = REQUEST) -> None:
    """Settle the orphan of a key, undisturbed; whoever had it is dead by now."""
    orphan = Orphan(id_.hex(), EPOCH, EPOCH, request)

    def perform(effect: Effect[object]) -> object:
        match effect:
            case Claim():
                return world.claim(effect)
            case Finish():
                return world.finish(effect)
            case Abandon():
                return world.abandon(effect)
            case Renew():
                return world.renew(effect)
            case Ask():
                return Applied(RECONCILED) if id_ in world.ledger else NotApplied()
            case Emit():
                return None
            case _:
                raise TypeError(f"a reconciler asks for no {effect!r}")

    run(settle_orphan(orphan, Fence(b"reconciler".ljust(16)), SETTLE_MS), perform)
