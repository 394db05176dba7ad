"""What a run is: its numbers, each with its reason, and the faults that the seed draws.

Values only. The same plan has the same blows and the same faults of the network, whatever the
machine makes of them; nothing is struck or started here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from replayfloor.testing.proxy_plan import (
    BLACK_HOLE,
    DUPLICATE,
    LOSE_REPLY,
    PASS,
    REFUSE,
    Cut,
    CutAfter,
    Delay,
    Fault,
    LoseReply,
    shuffled,
)
from replayfloor.testing.proxy_plan import Plan as Choice

CLIENTS = 64
"""Half of them retry by hand, half through the transport."""

WORKERS = 2
"""Server processes, each on a port of its own."""

LEASE_S = 2.0
"""Short, so that a worker which stands still is taken over while somebody watches; long against
the pauses of a busy machine, which would look the same."""

GAP_S = 2.4
"""Mean time between two blows: the servers are up again for most of it, so that each blow meets
requests in every state."""

QUIET_START_S = 2.0
"""Before the first blow: keys of every kind are open by then."""

DOWN_S = (0.1, 1.2)
"""How long what was killed stays away."""

STOP_LEASES = (1.3, 2.5)
"""How long a worker stands still, in leases: always past one."""

PACE_S = (0.4, 1.6)
"""What a client waits between two operations: together they keep two workers busy, and leave a
machine of two cores enough for the databases."""

ATTEMPT_S = 1.5
"""A client's patience with one attempt: shorter than a lease, so that it meets the other worker as
soon as a key may be taken over; and than the longest handlers, which so meet their own repetition.
"""

HANDLER_MS = ((0.70, 0, 20), (0.25, 50, 300), (0.05, 1200, 2400))
"""How long a handler takes on each side of its effect, and what share of them does. The last are
longer than a lease together, so that renewals are needed."""

DECK: tuple[Fault, ...] = (
    LOSE_REPLY,
    LOSE_REPLY,
    LoseReply(Cut.CLOSE),
    LoseReply(Cut.CLOSE),
    REFUSE,
    REFUSE,
    BLACK_HOLE,
    Delay(0.2),
    Delay(0.5),
    Delay(2.0),
    CutAfter(0),
    CutAfter(40, Cut.RESET),
    CutAfter(250),
    DUPLICATE,
    DUPLICATE,
    *[PASS] * 35,
)
"""What happens to 50 requests on the way to a worker: 30 % meet a fault, and 8 % lose the answer
to work that is done. The longest delay is longer than the client's patience."""


class Route(StrEnum):
    """The protected routes, by what their handlers write."""

    ATOMIC = "atomic"
    EXTERNAL = "external"
    REPEATABLE = "repeatable"


class Blow(StrEnum):
    """What is struck, beside the network."""

    WORKER_KILLED = "worker killed"
    WORKER_STOPPED = "worker stopped past the lease"
    BACKENDS_TERMINATED = "Postgres backends terminated"
    BACKEND_KILLED = "Postgres backend killed"
    POSTMASTER_KILLED = "postmaster and children killed"
    REDIS_KILLED = "Redis killed"
    REDIS_EMPTIED = "Redis replaced by an empty one"
    REDIS_FLUSHED = "FLUSHALL"
    REDIS_FAILED_OVER = "Redis failover"


EVERY_BLOW = (*Blow, Blow.WORKER_KILLED, Blow.WORKER_STOPPED, Blow.POSTMASTER_KILLED)
"""One deck: all kinds, and twice those that can cost a receipt or an effect."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One blow: when, after the start; at which worker, if at one; and for how many seconds."""

    at_s: float
    blow: Blow
    worker: int
    lasts_s: float

    @property
    def target(self) -> str:
        """What is struck: one thing at a time happens to it."""
        match self.blow:
            case Blow.WORKER_KILLED | Blow.WORKER_STOPPED:
                return f"worker {self.worker}"
            case Blow.BACKENDS_TERMINATED | Blow.BACKEND_KILLED | Blow.POSTMASTER_KILLED:
                return "Postgres"
            case _:
                return "Redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run.

    Args:
        seed: draws the blows, the faults of the network and the operations.
        seconds: for how long clients begin operations and blows fall.
        blows: the deck that blows are dealt from.
        gap_s: mean time between two blows.
        pace_s: least and longest pause of a client between two operations.
        handlers_ms: shares of the handlers, and how long those pause on each side of their effect.
        stop_leases: for how many leases a worker stands still, at least and at most.
        routes: where the operations go.
        broken: which protection the servers lack (see `broken`); "" for none.
    """

    seed: int
    seconds: float
    clients: int = CLIENTS
    lease_s: float = LEASE_S
    blows: Sequence[Blow] = EVERY_BLOW
    gap_s: float = GAP_S
    pace_s: tuple[float, float] = PACE_S
    handlers_ms: Sequence[tuple[float, int, int]] = HANDLER_MS
    stop_leases: tuple[float, float] = STOP_LEASES
    routes: Sequence[Route] = tuple(Route)
    broken: str = ""

    def strikes(self) -> tuple[Strike, ...]:
        """Return the blows of the run, in order; the same for the same seed.

        A deck rather than dice: every stretch has its share of each kind.
        """
        draw = random.Random(f"{self.seed}/blows")
        deck: list[Blow] = []
        strikes: list[Strike] = []
        at_s = QUIET_START_S
        while at_s < self.seconds:
            deck = deck or draw.sample(self.blows, len(self.blows))
            strikes.append(self._strike(draw, at_s, deck.pop()))
            at_s += draw.uniform(0.4, 1.6) * self.gap_s
        return tuple(strikes)

    def _strike(self, draw: random.Random, at_s: float, blow: Blow) -> Strike:
        stopped = blow is Blow.WORKER_STOPPED
        low, high = self.stop_leases if stopped else DOWN_S
        unit_s = self.lease_s if stopped else 1.0
        lasts_s = draw.uniform(low, high) * unit_s
        return Strike(round(at_s, 3), blow, draw.randrange(WORKERS), round(lasts_s, 3))

    def network(self, worker: int) -> Choice:
        """Return what chooses the fault of each request on the way to a worker, by its number."""
        return shuffled(self.seed * WORKERS + worker, DECK)

    def network_faults(self, worker: int, count: int) -> list[Fault]:
        """Return the faults of the first requests on the way to a worker."""
        return [self.network(worker)(number) for number in range(count)]
