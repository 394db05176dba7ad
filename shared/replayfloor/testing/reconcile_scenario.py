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

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Claim,
    Claimed,
    Fence,
    Finish,
    LockUnavailable,
    Release,
    Renew,
)
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, receipt_id
from replayfloor.core.message import Response
from replayfloor.server.effects import Captured, Emit, Execute, Pause, ReadRequest, RequestRead
from replayfloor.server.events import EventKind
from replayfloor.server.flow import Answered, Call, Replayed, serve
from replayfloor.server.flow.reconcile import Settled, settle_orphan
from replayfloor.server.policy import Effects, Options
from replayfloor.server.verdicts import (
    Applied,
    Ask,
    NotApplied,
    Orphan,
    StillUnknown,
    Verdict,
)
from replayfloor.testing.explore import Chooser, Violation
from replayfloor.testing.world import World

KEY = "key"
ID = receipt_id("test", None, KEY)
REQUEST = Fingerprint(b"r" * 16)
LEASE_MS = 1000
OPTIONS = Options(effects=Effects.EXTERNAL, lease_ms=LEASE_MS)
RECONCILED = Response(201, (), b"reconciled")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SettleFlow: TypeAlias = Callable[[Orphan, Fence, int], Flow[Settled]]


@dataclass(frozen=True, slots=True)
class FindOrphan(Effect[Orphan | None]):
    """List the orphans, of which there can be one."""


class OrphanWorld(World):
    """The stores, and what happened to the key. With `recognises`, whom the handlers call knows
    a repeated call by its derived key; without, every call has an effect."""

    def __init__(self, *, recognises: bool) -> None:
        """Begin empty."""
        super().__init__()
        self.history: list[str] = []
        self.recognises = recognises
        self._holder: Fence | None = None

    def give_out(self, fence: Fence) -> None:
        """Note that a request has the key; it may ask twice if it did not hear the answer."""
        if fence != self._holder:
            self.history.append("claimed")
            self._holder = fence

    def execute(self) -> None:
        """Run a handler."""
        if not (self.recognises and self.ledger):
            self.ledger.append(ID)

    def find_orphan(self) -> Orphan | None:
        """Return the key's claim, if its lease ran out."""
        claim = self._claims.get(ID)
        if claim is None or claim.until_ms > self.now_ms:
            return None
        return Orphan(ID.hex(), EPOCH, EPOCH, claim.fingerprint)

    def remove_claim(self) -> None:
        """End whatever claim stands; what only broken flows ask for."""
        self._claims.pop(ID, None)


class Actor:
    """One process: runs a flow, effect by effect."""

    def __init__(self, name: str, world: OrphanWorld, flow: Flow[object]) -> None:
        """Go to the first effect that others can see."""
        self.name, self.world, self._flow = name, world, flow
        self.waiting_for: Effect[object] | None = None
        self.result: object = None
        self.dead = False
        self.events: list[EventKind] = []
        self._go(lambda: next(flow))

    @property
    def running(self) -> bool:
        """Whether there is a next step."""
        return self.waiting_for is not None and not self.dead

    @property
    def in_handler(self) -> bool:
        """Whether it may have an effect yet."""
        return self.running and isinstance(self.waiting_for, Execute)

    def step(self) -> None:
        """Perform the effect and go on to the next."""
        effect = self.waiting_for
        assert effect is not None
        self._go(lambda: self._flow.send(self.perform(effect)))

    def lose(self) -> None:
        """Perform the effect, and go on as if its answer had been lost."""
        effect = self.waiting_for
        assert effect is not None
        self.perform(effect)
        self._go(lambda: self._flow.throw(StoreUnavailable("lost")))

    def die(self) -> None:
        """Stop here."""
        self.dead = True
        self._flow.close()

    def _go(self, move: Callable[[], Effect[object]]) -> None:
        try:
            effect = move()
            while (answer := self._local(effect)) is not effect:
                effect = self._flow.send(answer)
            self.waiting_for = effect
        except StopIteration as stop:
            self.waiting_for, self.result = None, stop.value
        except StoreUnavailable:
            self.waiting_for = None

    def _local(self, effect: Effect[object]) -> object:
        """Answer an effect that nobody else can see; return any other effect itself."""
        match effect:
            case ReadRequest():
                return RequestRead(REQUEST)
            case Acquire():
                return LockUnavailable()
            case Release():
                return False
            case Emit(event):
                self.events.append(event.kind)
                return None
            case Pause():
                return None
            case _:
                return effect

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect on the shared world."""
        match effect:
            case Claim():
                answer = self.world.claim(effect)
                if isinstance(answer, Claimed) and not effect.takeover:
                    self.world.give_out(effect.fence)
                return answer
            case Finish():
                finished = self.world.finish(effect)
                self.world.history += ["finished"] * finished
                return finished
            case Abandon():
                freed = self.world.abandon(effect)
                self.world.history += ["freed"] * freed
                return freed
            case Renew():
                return self.world.renew(effect)
            case Execute():
                self.world.execute()
                return Captured(Response(201, (), f"executed by {self.name}".encode()))
            case FindOrphan():
                return self.world.find_orphan()
            case _:
                raise TypeError(f"no system performs {effect!r}")


class Reconciling(Actor):
    """A process that settles the orphan, if there is one.

    Its user's function finds out the truth: whether the effect is there. If it is not, the
    function says so only if it cannot come any more: whom the handler calls recognises a repeated
    call, or nobody who might still have an effect is alive.
    """

    def __init__(
        self, name: str, world: OrphanWorld, settle: SettleFlow, requests: list[Actor]
    ) -> None:
        """Know of the processes that serve requests, as an operator does."""
        self._requests = requests
        super().__init__(name, world, _one_pass(settle, Fence(name.encode().ljust(16))))

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect; the broken flows' own are performed by whoever overrides this."""
        return self._verdict() if isinstance(effect, Ask) else super().perform(effect)

    def _verdict(self) -> Verdict:
        if self.world.ledger:
            return Applied(RECONCILED)
        if not self.world.recognises and any(each.in_handler for each in self._requests):
            return StillUnknown()
        return NotApplied()


def _one_pass(settle: SettleFlow, fence: Fence) -> Flow[Settled]:
    orphan = yield from FindOrphan()
    if orphan is None:
        return Settled.SKIPPED
    return (yield from settle(orphan, fence, LEASE_MS))


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

    def __call__(self, chooser: Chooser) -> None:
        """Run one schedule. Raises Violation if a promise was broken."""
        world = OrphanWorld(recognises=self.recognises)
        requests = [request_of("owner", world)]
        requests[0].step()
        if not self.alive:
            requests[0].die()
        expire(world)
        requests += [request_of(f"retry{n}", world) for n in range(self.retries)]
        passes = [self._pass(f"pass{n}", world, requests) for n in range(self.reconcilers)]
        _interleave(chooser, world, [*requests, *passes], self.faults)
        expire(world)
        _finish(self._pass("last pass", world, requests))
        requests.append(request_of("last", world))
        _finish(requests[-1])
        _check(world, requests)

    def _pass(self, name: str, world: OrphanWorld, requests: list[Actor]) -> Actor:
        return self.reconciling(name, world, self.settle, requests)


def request_of(name: str, world: OrphanWorld) -> Actor:
    """Return a process that serves a request with the key."""
    call = Call(
        key_lines=[f'"{KEY}"'.encode()],
        namespace="test",
        principal=None,
        fence=Fence(name.encode().ljust(16)),
        now_ms=0,
    )
    return Actor(name, world, serve(call, OPTIONS))


def expire(world: OrphanWorld) -> None:
    """Let every lease run out that was begun before."""
    world.now_ms += LEASE_MS + 1


def _finish(actor: Actor) -> None:
    while actor.running:
        actor.step()


def _interleave(
    chooser: Chooser, world: OrphanWorld, actors: list[Actor], faults: ReconcileFaults
) -> None:
    crashes, expiries, losses = faults.crashes, faults.expiries, faults.lost_answers
    while running := [actor for actor in actors if actor.running]:
        moves: list[tuple[str, Callable[[], None]]] = []
        for actor in running:
            what = type(actor.waiting_for).__name__
            moves.append((f"{actor.name}: {what}", actor.step))
            if crashes:
                moves.append((f"{actor.name} dies before {what}", actor.die))
            if losses and isinstance(actor.waiting_for, Claim | Finish | Abandon | Renew):
                moves.append((f"{actor.name} loses the answer of {what}", actor.lose))
        if expiries:
            moves.append(("a lease runs out", lambda: expire(world)))
        labels = [label for label, _move in moves]
        label, move = moves[chooser.choose(labels) if len(labels) > 1 else 0]
        crashes -= "dies" in label
        losses -= "loses" in label
        expiries -= "runs out" in label
        move()


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
