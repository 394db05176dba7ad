"""Ways to settle an orphan with one protection removed. The explorer has to catch each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replayfloor.core.claims import Abandon, Claim, Claimed, Fence, Finish
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.flow.reconcile import Settled, settle_orphan
from replayfloor.server.verdicts import Applied, Ask, NotApplied, Orphan
from replayfloor.testing.reconcile_actors import (
    ID,
    RECONCILED,
    REQUEST,
    Reconciling,
)
from replayfloor.testing.reconcile_scenario import ReconcileFaults, ReconcileScenario

RECEIPT = keep(REQUEST, RECONCILED)


@dataclass(frozen=True, slots=True)
class Overwrite(Effect[None]):
    """End whatever claim stands; with a receipt, write it."""

    orphan: Orphan
    receipt: Receipt | None


class Overwriting(Reconciling):
    """Performs what the right flow never asks for."""

    def perform(self, effect: Effect[object]) -> object:
        match effect:
            case Overwrite(_orphan, None):
                self.world.forget_claim(ID)
                self.world.history.append("freed")
                return None
            case Overwrite(orphan, receipt) if receipt is not None:
                self.world.store(orphan.receipt_id, receipt)
                self.world.history.append("finished")
                return None
            case _:
                return super().perform(effect)


def without_taking_over(orphan: Orphan, fence: Fence, lease_ms: int) -> Flow[Settled]:
    """Ask, then write the answer, whoever has the claim by now."""
    verdict = yield from Ask(orphan)
    match verdict:
        case Applied():
            yield from Overwrite(orphan, RECEIPT)
            return Settled.APPLIED
        case NotApplied():
            yield from Overwrite(orphan, None)
            return Settled.NOT_APPLIED
        case _:
            return Settled.UNKNOWN


def asking_before_taking_over(orphan: Orphan, fence: Fence, lease_ms: int) -> Flow[Settled]:
    """Ask, take over, write: what was asked about need not be what was taken over."""
    verdict = yield from Ask(orphan)
    claim = Claim(orphan.receipt_id, orphan.fingerprint, fence, lease_ms, takeover=True)
    if (yield from claim) != Claimed(taken_over=True):
        return Settled.SKIPPED
    match verdict:
        case Applied():
            yield from Finish(orphan.receipt_id, fence, RECEIPT)
            return Settled.APPLIED
        case NotApplied():
            yield from Abandon(orphan.receipt_id, fence)
            return Settled.NOT_APPLIED
        case _:
            return Settled.UNKNOWN


def claiming_twice(orphan: Orphan, fence: Fence, lease_ms: int) -> Flow[Settled]:
    """Claim again when the answer was lost, and take "claimed" for a key that was free."""
    claim = Claim(orphan.receipt_id, orphan.fingerprint, fence, lease_ms, takeover=True)
    try:
        answer = yield from claim
    except StoreUnavailable:
        answer = yield from claim
        if answer == Claimed():
            yield from Abandon(orphan.receipt_id, fence)
        return Settled.SKIPPED
    if answer != Claimed(taken_over=True):
        return Settled.SKIPPED
    verdict = yield from Ask(orphan)
    if isinstance(verdict, Applied):
        yield from Finish(orphan.receipt_id, fence, RECEIPT)
        return Settled.APPLIED
    return Settled.UNKNOWN


class Credulous(Reconciling):
    """Takes "nothing is there yet" for "nothing will come", of a handler that may be alive."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Ask):
            return Applied(RECONCILED) if self.world.ledger else NotApplied()
        return super().perform(effect)


BROKEN: dict[str, Callable[[], ReconcileScenario]] = {
    "an answer written without taking over": lambda: ReconcileScenario(
        settle=without_taking_over, reconciling=Overwriting
    ),
    "a key freed without taking over": lambda: ReconcileScenario(
        alive=False, reconcilers=2, settle=without_taking_over, reconciling=Overwriting
    ),
    "asked before taking over": lambda: ReconcileScenario(
        alive=False,
        reconcilers=2,
        faults=ReconcileFaults(expiries=1),
        settle=asking_before_taking_over,
    ),
    "claimed twice": lambda: ReconcileScenario(
        faults=ReconcileFaults(lost_answers=1), settle=claiming_twice
    ),
    "not applied, although it may come yet": lambda: ReconcileScenario(
        settle=settle_orphan, reconciling=Credulous
    ),
}
