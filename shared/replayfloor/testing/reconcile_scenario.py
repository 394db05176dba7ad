"""An orphan, its owner that may be alive, retries and reconcilers, for the schedule explorer.

At the beginning a request has claimed the key and stands still, and its lease has run out. Then
everybody acts in the order the chooser says: the owner wakes up, retries arrive, reconcilers make
their pass; one may die, a lease may run out, a reconciler may lose the answer of its store.
Afterwards one more pass and one more request, undisturbed, and the promises are checked:

    one effect in the end; no request gets the key again before "not applied" was recorded; the key
    has one receipt, and every replay is that one; who answers otherwise is told that it lost

The lock is left out: it decides nothing here, and is in `server_scenario`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from replayfloor.core.claims import (
    Abandon,
    Claim,
    Finish,
    Renew,
)
from replayfloor.server.events import EventKind
from replayfloor.server.flow import Answered, Replayed
from replayfloor.server.flow.reconcile import settle_orphan
from replayfloor.testing.explore import Violation
from replayfloor.testing.explore_states import Move
from replayfloor.testing.reconcile_actors import (
    ID,
    Actor,
    OrphanWorld,
    Reconciling,
    SettleFlow,
    expire,
    request_of,
)


@dataclass(frozen=True, slots=True)
class ReconcileFaults:
    """How many of each fault one schedule may hold."""

    crashes: int = 0
    expiries: int = 0
    lost_answers: int = 0


@dataclass(frozen=True, slots=True)
class ReconcileScenario:
    """An orphan whose owner is `alive` or not, `retries` and `reconcilers`; see the module."""

    alive: bool = True
    retries: int = 1
    reconcilers: int = 1
    recognises: bool = False
    faults: ReconcileFaults = ReconcileFaults()
    settle: SettleFlow = settle_orphan
    reconciling: type[Reconciling] = Reconciling

    def begin(self) -> ReconcileCourse:
        """Return a new course."""
        return ReconcileCourse(self)

    def one_pass(self, name: str, world: OrphanWorld, requests: list[Actor]) -> Reconciling:
        """Return a reconciler that makes its pass."""
        return self.reconciling(name, world, self.settle, requests)


class ReconcileCourse:
    """One schedule under way."""

    def __init__(self, scenario: ReconcileScenario) -> None:
        """Leave an orphan, and let everybody begin."""
        self._scenario = scenario
        self._world = world = OrphanWorld(recognises=scenario.recognises)
        owner = request_of("owner", world)
        owner.step()
        if not scenario.alive:
            owner.die()
        expire(world)
        retries = [request_of(f"retry{number}", world) for number in range(scenario.retries)]
        self._requests = [owner, *retries]
        self._passes = [
            scenario.one_pass(f"pass{number}", world, self._requests)
            for number in range(scenario.reconcilers)
        ]
        faults = scenario.faults
        self._left = [faults.crashes, faults.expiries, faults.lost_answers]

    def copy(self) -> Self:
        """Return an equal course that goes on independently."""
        other = object.__new__(type(self))
        other._scenario, other._left = self._scenario, self._left.copy()
        other._world = self._world.copy()
        other._requests = [each.copy() for each in self._requests]
        other._passes = [each.copy() for each in self._passes]
        for actor in other._actors:
            actor.world = other._world
        for each in other._passes:
            each.requests = other._requests
        return other

    def key(self) -> tuple[Hashable, ...]:
        """Return what the future depends on."""
        return (self._world.key(), tuple(self._left), *[each.key() for each in self._actors])

    @property
    def _actors(self) -> list[Actor]:
        return [*self._requests, *self._passes]

    def moves(self) -> Sequence[Move]:
        """Return what can happen next, going on first; nothing once everybody has ended."""
        crashes, expiries, losses = self._left
        moves: list[Move] = []
        for at, actor in enumerate(self._actors):
            if not actor.running:
                continue
            what = type(actor.waiting_for).__name__
            moves.append(Move(f"{actor.name}: {what}", partial(_step, at)))
            if crashes:
                moves.append(Move(f"{actor.name} dies before {what}", partial(_die, at)))
            if losses and isinstance(actor.waiting_for, Claim | Finish | Abandon | Renew):
                moves.append(Move(f"{actor.name} loses the answer of {what}", partial(_lose, at)))
        if moves and expiries:
            moves.append(Move("a lease runs out", ReconcileCourse._expire))
        return moves

    def actor(self, at: int, *, fault: int | None = None) -> Actor:
        """Return whom a move is about, and use up a fault."""
        if fault is not None:
            self._left[fault] -= 1
        return self._actors[at]

    def _expire(self) -> None:
        self._left[1] -= 1
        expire(self._world)

    def check(self) -> None:
        """Raise Violation if a promise was broken."""
        expire(self._world)
        _finish(self._scenario.one_pass("last pass", self._world, self._requests))
        self._requests.append(request_of("last", self._world))
        _finish(self._requests[-1])
        _check(self._world, self._requests)


def _step(at: int, course: ReconcileCourse) -> object:
    return course.actor(at).step()


def _die(at: int, course: ReconcileCourse) -> None:
    course.actor(at, fault=0).die()


def _lose(at: int, course: ReconcileCourse) -> None:
    course.actor(at, fault=2).lose()


def _finish(actor: Actor) -> None:
    while actor.running:
        actor.step()


def _check(world: OrphanWorld, requests: list[Actor]) -> None:
    if len(world.ledger) != 1:
        raise Violation(f"{len(world.ledger)} effects")
    free = True
    for what in world.history:
        if what == "claimed" and not free:
            raise Violation("the key was given out again, and nobody had said 'not applied'")
        free = what == "freed" or (free and what != "claimed")
    receipt = world.find(ID)
    if receipt is None or world.history.count("finished") != 1:
        raise Violation(f"not one receipt: {world.history}")
    for each in requests:
        match each.result:
            case Replayed(replayed) if replayed != receipt:
                raise Violation(f"{each.name} was shown {replayed.response.body!r}")
            case Answered(captured) if captured.response != receipt.response:
                if EventKind.LEASE_LOST not in each.events:
                    raise Violation(f"{each.name} answered what was not recorded, and silently")
            case _:
                pass
