"""Server flows and processes with one protection removed. The explorer has to catch each of them.

Every entry is a mistake that public projects have made; each stands for one promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Commit,
    Finish,
    Held,
    Release,
)
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import ClaimLost
from replayfloor.core.fingerprint import ReceiptId, receipt_id
from replayfloor.core.problem import in_flight
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured, Execute
from replayfloor.server.flow import Answer, Answered, Call, Refused, Replayed
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.server_scenario import KEY, REQUEST, Faults, Process, ServerScenario

ONE_OF_EACH = Faults(crashes=1, expiries=1)


@dataclass(frozen=True, slots=True)
class Look(Effect[Receipt | None]):
    """Look for a receipt, without any claim."""

    id: ReceiptId


@dataclass(frozen=True, slots=True)
class InsertClaim(Effect[ClaimAnswer]):
    """Insert a claim, without looking for a receipt afterwards."""

    claim: Claim


class LookingProcess(Process):
    """Performs what the right flow never asks for."""

    def perform(self, effect: Effect[object]) -> object:
        match effect:
            case Look(id_):
                return self.world.find(id_)
            case InsertClaim(claim):
                return self.world.insert_claim(claim)
            case Finish():
                self.world.store(effect.id, effect.receipt)
                return True
            case _:
                return super().perform(effect)


class FencedLookingProcess(LookingProcess):
    """The same, with the fenced finish of the right flow."""

    def perform(self, effect: Effect[object]) -> object:
        return self.world.finish(effect) if isinstance(effect, Finish) else super().perform(effect)


def look_outside_the_lock(call: Call, options: Options) -> Flow[Answer]:
    """Look, lock, execute, store, unlock: what was looked at is old when the lock is had."""
    id_ = receipt_id(call.namespace, call.principal, KEY)
    found = yield from Look(id_)
    if found is not None:
        return Replayed(found)
    lock = yield from Acquire(id_, REQUEST, call.fence, options.lease_ms)
    if not isinstance(lock, Acquired):
        return Refused(in_flight(0))
    captured = yield from Execute()
    yield from Finish(id_, call.fence, keep(REQUEST, captured.response))
    yield from Release(id_, call.fence)
    return Answered(captured)


def lock_instead_of_a_claim(call: Call, options: Options) -> Flow[Answer]:
    """Lock, look, execute, store, unlock: safe until a lease ends or a process dies."""
    id_ = receipt_id(call.namespace, call.principal, KEY)
    lock = yield from Acquire(id_, REQUEST, call.fence, options.lease_ms)
    match lock:
        case Cached(receipt):
            return Replayed(receipt)
        case Held():
            return Refused(in_flight(0))
        case _:
            pass
    found = yield from Look(id_)
    if found is not None:
        yield from Release(id_, call.fence)
        return Replayed(found)
    captured = yield from Execute()
    yield from Finish(id_, call.fence, keep(REQUEST, captured.response))
    yield from Release(id_, call.fence)
    return Answered(captured)


def look_before_the_insert(call: Call, options: Options) -> Flow[Answer]:
    """Look into receipts, then insert the claim: a finish in between is not seen."""
    id_ = receipt_id(call.namespace, call.principal, KEY)
    found = yield from Look(id_)
    if found is not None:
        return Replayed(found)
    answer = yield from InsertClaim(Claim(id_, REQUEST, call.fence, options.lease_ms))
    if not isinstance(answer, Claimed):
        return Refused(in_flight(0))
    captured = yield from Execute()
    yield from Finish(id_, call.fence, keep(REQUEST, captured.response))
    return Answered(captured)


class UnlocksWithoutToken(Process):
    """Deletes the lock, whoever holds it by now."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Release):
            return self.world.release(effect, checked=False)
        return super().perform(effect)


class ExecutesOrphansAgain(Process):
    """Takes over every orphan, also where a crash leaves an unknown outcome."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            return self.world.claim(replace(effect, takeover=True))
        return super().perform(effect)


class FinishesWithoutFence(Process):
    """Commits what it has, although another execution took the claim over."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Commit):
            self.world.store(effect.finish.id, effect.finish.receipt)
            self.world.ledger += self.pending
            return True
        return super().perform(effect)


class NeverTakesOver(Process):
    """Leaves an atomic orphan alone, although it provably did nothing."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            return self.world.claim(replace(effect, takeover=False))
        return super().perform(effect)


class WritesOutsideTheTransaction(Process):
    """Has an effect that a rollback does not undo, on a route that says it is atomic."""

    def _execute(self) -> Captured:
        self.in_transaction = False
        return super()._execute()


class AnswersAfterItLostTheKey(Process):
    """Takes a refused finish for a stored one, on a route whose orphans are executed again."""

    def perform(self, effect: Effect[object]) -> object:
        answer = super().perform(effect)
        return True if isinstance(effect, Finish) else answer


class CommitsWithoutItsReceipt(Process):
    """Keeps what it wrote in its own transaction, although the receipt in it was refused."""

    def _execute_in_own_transaction(self) -> Captured:
        try:
            return super()._execute_in_own_transaction()
        except ClaimLost:
            self.world.ledger.append(receipt_id("test", None, KEY))
            raise


BROKEN: dict[str, Callable[[], ServerScenario]] = {
    "look outside the lock": lambda: ServerScenario(
        Effects.EXTERNAL, flow=look_outside_the_lock, process=LookingProcess
    ),
    "lock instead of a claim, lease expires": lambda: ServerScenario(
        Effects.EXTERNAL,
        faults=Faults(expiries=1),
        flow=lock_instead_of_a_claim,
        process=LookingProcess,
    ),
    "lock instead of a claim, process dies": lambda: ServerScenario(
        Effects.EXTERNAL,
        faults=Faults(crashes=1),
        flow=lock_instead_of_a_claim,
        process=LookingProcess,
    ),
    "look before the insert": lambda: ServerScenario(
        Effects.EXTERNAL, flow=look_before_the_insert, process=FencedLookingProcess
    ),
    "unlock without token": lambda: ServerScenario(
        Effects.ATOMIC, faults=Faults(expiries=1), process=UnlocksWithoutToken
    ),
    "orphan executed again": lambda: ServerScenario(
        Effects.EXTERNAL, faults=ONE_OF_EACH, process=ExecutesOrphansAgain
    ),
    "finish without fence": lambda: ServerScenario(
        Effects.ATOMIC, faults=Faults(expiries=1), process=FinishesWithoutFence
    ),
    "orphan never taken over": lambda: ServerScenario(
        Effects.ATOMIC, faults=ONE_OF_EACH, process=NeverTakesOver
    ),
    "answer after the key was lost": lambda: ServerScenario(
        Effects.REPEATABLE, faults=Faults(expiries=1), process=AnswersAfterItLostTheKey
    ),
    "own transaction without its receipt": lambda: ServerScenario(
        Effects.REPEATABLE,
        faults=Faults(expiries=1),
        process=CommitsWithoutItsReceipt,
        own_transaction=True,
    ),
    "effect outside the transaction": lambda: ServerScenario(
        Effects.ATOMIC, faults=ONE_OF_EACH, process=WritesOutsideTheTransaction
    ),
}
