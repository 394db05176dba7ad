"""Server flows with one protection removed. The explorer has to catch each of them.

Every one is a mistake that public projects have made. Processes with a mistake are in
`broken_processes`, and which protection each of them lacks is listed in `broken_server`.
"""

from __future__ import annotations

from dataclasses import dataclass

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Acquired,
    Begin,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Commit,
    Finish,
    Finished,
    Held,
    Orphaned,
    Release,
)
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import ReceiptId, receipt_id
from replayfloor.core.problem import ProblemKind, in_flight, outcome_unknown
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured, Execute
from replayfloor.server.flow import Answer, Answered, Call, Refused, Replayed, serve
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.server_process import REQUEST, Process
from replayfloor.testing.server_scenario import KEY


@dataclass(frozen=True, slots=True)
class Look(Effect[Receipt | None]):
    """Look for a receipt, without any claim."""

    id: ReceiptId


@dataclass(frozen=True, slots=True)
class InsertClaim(Effect[ClaimAnswer]):
    """Insert a claim, without looking for a receipt afterwards."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Show(Effect[None]):
    """Send the answer to the client."""

    captured: Captured


class ShowingProcess(Process):
    """Performs what the right flow never asks for: its answer is out before the flow has ended."""

    shown: Captured | None = None

    @property
    def answer(self) -> Answer | None:
        return Answered(self.shown) if self.shown is not None else super().answer

    def key(self) -> object:
        return (super().key(), self.shown)

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Show):
            self.shown = effect.captured
            return None
        return super().perform(effect)


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


def answer_before_finish(call: Call, options: Options) -> Flow[Answer]:
    """Answer as soon as the handler has, and store the receipt after that."""
    id_ = receipt_id(call.namespace, call.principal, KEY)
    answer = yield from Claim(id_, REQUEST, call.fence, options.lease_ms, options.takes_over)
    match answer:
        case Finished(receipt):
            return Replayed(receipt)
        case Claimed():
            pass
        case Orphaned():
            return Refused(outcome_unknown(60))
        case _:
            return Refused(in_flight(0))
    if options.effects is Effects.ATOMIC:
        yield from Begin(id_)
    captured = yield from Execute()
    yield from Show(captured)
    finish = Finish(id_, call.fence, keep(REQUEST, captured.response))
    if options.effects is Effects.ATOMIC:
        yield from Commit(finish)
    else:
        yield from finish
    return Answered(captured)


def guess_that_an_orphan_failed(call: Call, options: Options) -> Flow[Answer]:
    """Take a key whose outcome is unknown for one that failed: free it, and begin anew."""
    answer = yield from serve(call, options)
    if isinstance(answer, Refused) and answer.problem.kind is ProblemKind.OUTCOME_UNKNOWN:
        id_ = receipt_id(call.namespace, call.principal, KEY)
        yield from Claim(id_, REQUEST, call.fence, options.lease_ms, takeover=True)
        yield from Abandon(id_, call.fence)
        return (yield from serve(call, options))
    return answer
