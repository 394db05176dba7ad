"""One request that is served in the simulated world: where its flow is, and what it holds.

It performs the flow's effects on the shared world; broken processes override that. What happens
when is decided by the course (`server_course`). A process can be copied, with its world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Begin,
    Claim,
    Commit,
    Extend,
    Fence,
    Finish,
    LockUnavailable,
    Release,
    Renew,
    Rollback,
)
from replayfloor.core.effects import Effect
from replayfloor.core.errors import ClaimLost, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import keep
from replayfloor.server.effects import Captured, Emit, Execute, Pause, ReadRequest, RequestRead
from replayfloor.server.flow import Answer
from replayfloor.testing.explore_flow import Place
from replayfloor.testing.explore_states import State
from replayfloor.testing.world import World

REQUEST = Fingerprint(b"r" * 16)
LEASE_MS = 1000

LOCAL: TypeAlias = Emit | ReadRequest | Rollback
"""Effects that no other process can see: nothing is gained by choosing an order for them."""


class Cancelled(BaseException):
    """The request was cancelled, as asyncio does it: no Exception."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What one request is known by. Requests of one `worker` die together."""

    name: str
    worker: str
    id: ReceiptId
    fence: Fence
    own_transaction: bool = False


class Process(State):
    """One execution of a flow, and what it holds in its own memory.

    `written` counts its effects in the ledger and `failures` the calls of a store that failed;
    `stopped` says that it was cancelled in its handler.
    """

    def __init__(self, ticket: Ticket, world: World, place: Place[Answer]) -> None:
        """Go to the first effect that matters to others."""
        self.ticket = ticket
        self.world = world
        self.dead = False
        self.stopped = False
        self.cancelled = False
        self.failures = 0
        self.in_transaction = False
        self.pending: list[ReceiptId] = []
        self.written = 0
        self.renewer: Place[None] | None = None
        self.place = self.settled(place)

    def key(self) -> object:
        """Return the process's value; the world has its own."""
        return (
            self.place, self.ticket, self.dead, self.stopped, self.cancelled, self.failures,
            self.in_transaction, len(self.pending), self.written, self.renewer,
        )  # fmt: skip

    @property
    def waiting_for(self) -> Effect[object] | None:
        """The next effect."""
        return self.place.effect

    @property
    def running(self) -> bool:
        """Whether there is a next step."""
        return self.place.effect is not None and not self.dead

    @property
    def executing(self) -> bool:
        """Whether its handler runs."""
        return not self.dead and isinstance(self.place.effect, Execute)

    @property
    def answer(self) -> Answer | None:
        """What it answers, if it has come to that."""
        return None if self.dead else self.place.result

    # -- how it goes on -------------------------------------------------------------------------

    def step(self) -> object:
        """Perform the effect and go on to the next; return what was answered."""
        effect = self.waiting_for
        assert effect is not None
        try:
            answer = self.perform(effect)
        except ClaimLost as error:
            self.go(self.place.throw(error))
            return "ClaimLost"
        self.go(self.place.send(answer))
        return answer

    def fail(self, *, performed: bool) -> None:
        """Go on as if the store had not answered; the effect may have been performed."""
        effect = self.waiting_for
        assert effect is not None
        self.failures += 1
        if performed:
            self.perform(effect)
        if isinstance(effect, Acquire):
            self.go(self.place.send(LockUnavailable()))
        elif isinstance(effect, Release):
            self.go(self.place.send(False))
        else:
            lost = StoreUnavailable("lost", performed=None if performed else False)
            self.go(self.place.throw(lost))

    def cancel(self, *, performed: bool) -> None:
        """Be cancelled at the effect; what follows is cleanup, and is performed."""
        effect = self.waiting_for
        assert effect is not None
        if performed:
            self.perform(effect)
        self.cancelled = True
        self.stopped = self.stopped or isinstance(effect, Execute)
        self.go(self.place.throw(Cancelled()))

    def die(self) -> None:
        """Stop here; an open transaction is rolled back by its database."""
        self.dead = True
        self.renewer = None
        self.pending.clear()

    def go(self, place: Place[Answer]) -> None:
        """Be at a place of the flow, after the effects that nobody else can see."""
        self.place = self.settled(place)
        self.renewer = self.renewer if self.executing else None

    def settled(self, place: Place[Answer]) -> Place[Answer]:
        """Return the next place at which others can see what is done."""
        while isinstance(place.effect, LOCAL):
            place = place.send(self._perform_local(place.effect))
        return place

    def _perform_local(self, effect: LOCAL) -> object:
        match effect:
            case ReadRequest():
                return RequestRead(REQUEST)
            case Rollback():
                self.pending.clear()
                self.in_transaction = False
            case Emit():
                pass
        return None

    # -- what it does to the world --------------------------------------------------------------

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect on the shared world; the flows under test may override it."""
        match effect:
            case Acquire():
                return self.world.acquire(effect)
            case Release():
                return self.world.release(effect)
            case Extend():
                return self.world.extend(effect)
            case Claim():
                return self.world.claim(effect)
            case Renew():
                return self.world.renew(effect)
            case Finish():
                return self.world.finish(effect)
            case Abandon():
                return self.world.abandon(effect)
            case Begin():
                self.in_transaction = True
                return None
            case Execute():
                return self.execute()
            case Commit(finish):
                return self._commit(finish)
            case Pause(pause_ms):
                self.world.now_ms += pause_ms
                return None
            case _:
                raise TypeError(f"no system performs {effect!r}")

    def execute(self) -> Captured:
        """Run the handler."""
        if self.ticket.own_transaction:
            return self.execute_in_own_transaction()
        if self.in_transaction:
            self.pending.append(self.ticket.id)
        else:
            self.write(1)
        return Captured(self.response)

    def execute_in_own_transaction(self) -> Captured:
        """Write the effect and the receipt in one commit, as `claim.finish_in` lets a handler."""
        receipt = keep(REQUEST, self.response)
        if not self.world.finish(Finish(self.ticket.id, self.ticket.fence, receipt)):
            raise ClaimLost("rolled back")
        self.write(1)
        return Captured(self.response, recorded=receipt)

    @property
    def response(self) -> Response:
        """What its handler answers; nobody else's does."""
        return Response(201, (), f"executed by {self.ticket.name}".encode())

    def write(self, count: int) -> None:
        """Have so many effects."""
        self.written += count
        self.world.ledger += [self.ticket.id] * count

    def _commit(self, finish: Finish) -> bool:
        committed = self.world.finish(finish)
        if committed:
            self.write(len(self.pending))
        self.pending.clear()
        self.in_transaction = False
        return committed
