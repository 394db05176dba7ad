"""Ways to deal with a receipt's end with one protection removed. The explorer has to catch each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replayfloor.core.claims import Claim, Claimed, Finish, Release, Reuse
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import receipt_id
from replayfloor.core.key import parse_key
from replayfloor.core.problem import Problem, in_flight, key_expired
from replayfloor.core.receipt import keep
from replayfloor.core.uuid7 import minted_ms
from replayfloor.server.effects import Execute
from replayfloor.server.flow import Answer, Answered, Call, Refused, Replayed, serve
from replayfloor.server.flow.age import judge_age
from replayfloor.server.policy import Options
from replayfloor.testing.server_expiry import (
    AHEAD_MS,
    RETENTION_MS,
    START_MS,
    ExpiringProcess,
    ExpiryScenario,
    Tells,
)
from replayfloor.testing.server_process import REQUEST
from simulation.broken_flows import InsertClaim, Look


class GuardsNothing(ExpiringProcess):
    """Lets the store decide alone, which forgets."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            effect = replace(effect, reuse=Reuse.REFUSE)
        return super().perform(effect)


class GuardsWithoutMargin(ExpiringProcess):
    """Compares with the retention itself: a clock that is ahead makes the key look younger."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            age_ms = self.arrived_ms - (START_MS + AHEAD_MS)
            reuse = Reuse.NEVER if age_ms > RETENTION_MS else Reuse.REFUSE
            effect = replace(effect, reuse=reuse)
        return super().perform(effect)


class CachesForAsLongAsEver(ExpiringProcess):
    """Keeps a receipt that it found in the lock's place, however soon it expires."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Release) and effect.receipt is not None:
            effect = replace(effect, keep_ms=RETENTION_MS)
        return super().perform(effect)


class ForgetsProofs(ExpiringProcess):
    """Does not look for proofs, although receipts leave them."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            effect = replace(effect, proofs=False)
        return super().perform(effect)


class Looking(ExpiringProcess):
    """Performs what the right flow never asks for."""

    def perform(self, effect: Effect[object]) -> object:
        match effect:
            case Look(id_):
                return self.world.find(id_)
            case InsertClaim(claim):
                self.since_ms = self.world.now_ms
                return self.world.insert_claim(claim)
            case _:
                return super().perform(effect)


def look_before_the_insert(call: Call, options: Options) -> Flow[Answer]:
    """Judge the age, look for the receipt, insert: what finished and was dropped is not seen."""
    key = parse_key(call.key_lines, options.key_rules)
    id_ = receipt_id(call.namespace, call.principal, key)
    age = judge_age(key, call, options)
    if isinstance(age, Problem):
        return Refused(age)
    found = yield from Look(id_)
    if found is not None:
        return Replayed(found)
    if age.past:
        return Refused(key_expired(RETENTION_MS // 1000))
    answer = yield from InsertClaim(Claim(id_, REQUEST, call.fence, options.lease_ms))
    if not isinstance(answer, Claimed):
        return Refused(in_flight(0))
    captured = yield from Execute()
    yield from Finish(id_, call.fence, keep(REQUEST, captured.response))
    return Answered(captured)


def refuse_before_the_look(call: Call, options: Options) -> Flow[Answer]:
    """Refuse a key that is too old, whether or not there is a receipt to replay."""
    key = parse_key(call.key_lines, options.key_rules)
    age = judge_age(key, call, options)
    if not isinstance(age, Problem) and age.past:
        return Refused(key_expired(RETENTION_MS // 1000))
    return (yield from serve(call, options))


def takes_keys_from_the_future(call: Call, options: Options) -> Flow[Answer]:
    """Take a key for made now that says it will be, by however much."""
    key = parse_key(call.key_lines, options.key_rules)
    return serve(replace(call, now_ms=max(call.now_ms, minted_ms(key) or 0)), options)


BROKEN: dict[str, Callable[[], ExpiryScenario]] = {
    "no guard": lambda: ExpiryScenario(process=GuardsNothing, at_once=1),
    "guard without margin": lambda: ExpiryScenario(process=GuardsWithoutMargin, at_once=1),
    "cache that outlives the receipt": lambda: ExpiryScenario(
        process=CachesForAsLongAsEver, at_once=1, used=True
    ),
    "look before the insert": lambda: ExpiryScenario(process=Looking, flow=look_before_the_insert),
    "expiry judged before the look": lambda: ExpiryScenario(
        flow=refuse_before_the_look, at_once=1, used=True
    ),
    "keys from the future": lambda: ExpiryScenario(
        flow=takes_keys_from_the_future, ahead_ms=5 * AHEAD_MS, at_once=1
    ),
    "proofs not looked for": lambda: ExpiryScenario(
        tells=Tells.NOTHING, to_proofs=True, process=ForgetsProofs, at_once=1
    ),
}
