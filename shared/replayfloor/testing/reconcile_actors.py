"""Who acts on an orphan: requests and reconcilers, in a world without a lock.

What may happen to them, and what is promised, is in `reconcile_scenario`.
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
from replayfloor.server.flow import Call, serve
from replayfloor.server.flow.reconcile import Settled
from replayfloor.server.policy import Effects, Options
from replayfloor.server.verdicts import (
    Applied,
    Ask,
    NotApplied,
    Orphan,
    StillUnknown,
    Verdict,
)
from replayfloor.testing.explore_flow import Place, first
from replayfloor.testing.explore_states import State
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


class Actor(State):
    """One process: runs a flow, effect by effect."""

    def __init__(self, name: str, world: OrphanWorld, place: Place[object]) -> None:
        """Go to the first effect that others can see."""
        self.name, self.world = name, world
        self.dead = False
        self.events: list[EventKind] = []
        self.place = place
        self._go(place)

    def key(self) -> object:
        """Return the actor's value; the world has its own."""
        return (self.place, self.dead, tuple(self.events))

    @property
    def waiting_for(self) -> Effect[object] | None:
        """The next effect."""
        return self.place.effect

    @property
    def result(self) -> object:
        """What the flow returned; None before its end."""
        return self.place.result

    @property
    def running(self) -> bool:
        """Whether there is a next step."""
        return self.waiting_for is not None and not self.dead

    @property
    def in_handler(self) -> bool:
        """Whether it may have an effect yet."""
        return self.running and isinstance(self.waiting_for, Execute)

    def step(self) -> object:
        """Perform the effect and go on to the next; return what was answered."""
        effect = self.waiting_for
        assert effect is not None
        answer = self.perform(effect)
        self._go(self.place.send(answer))
        return answer

    def lose(self) -> None:
        """Perform the effect, and go on as if its answer had been lost."""
        effect = self.waiting_for
        assert effect is not None
        self.perform(effect)
        self._go(self.place.throw(StoreUnavailable("lost")))

    def die(self) -> None:
        """Stop here."""
        self.dead = True

    def _go(self, place: Place[object]) -> None:
        while place.effect is not None:
            answer = self._local(place.effect)
            if answer is place.effect:
                break
            place = place.send(answer)
        self.place = place

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
        self.requests = requests
        fence = Fence(name.encode().ljust(16))
        super().__init__(name, world, first(lambda: _one_pass(settle, fence)))

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect; the broken flows' own are performed by whoever overrides this."""
        return self._verdict() if isinstance(effect, Ask) else super().perform(effect)

    def _verdict(self) -> Verdict:
        if self.world.ledger:
            return Applied(RECONCILED)
        if not self.world.recognises and any(each.in_handler for each in self.requests):
            return StillUnknown()
        return NotApplied()


def _one_pass(settle: SettleFlow, fence: Fence) -> Flow[Settled]:
    orphan = yield from FindOrphan()
    if orphan is None:
        return Settled.SKIPPED
    return (yield from settle(orphan, fence, LEASE_MS))


def request_of(name: str, world: OrphanWorld) -> Actor:
    """Return a process that serves a request with the key."""
    call = Call(
        key_lines=(f'"{KEY}"'.encode(),),
        namespace="test",
        principal=None,
        fence=Fence(name.encode().ljust(16)),
        now_ms=0,
    )
    return Actor(name, world, first(lambda: serve(call, OPTIONS)))


def expire(world: OrphanWorld) -> None:
    """Let every lease run out that was begun before."""
    world.now_ms += LEASE_MS + 1
