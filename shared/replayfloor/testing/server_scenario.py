"""Several processes that serve requests, with faults, for the explorer: what may happen.

Each process runs a server flow. How a schedule goes on is in `server_course`, what is promised of
each of them in `server_promises`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from replayfloor.core.claims import Fence
from replayfloor.core.effects import Flow
from replayfloor.core.fingerprint import receipt_id
from replayfloor.server.effects import Emit
from replayfloor.server.flow import Admitted, Answer, Call, renew, serve
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.explore_flow import Place, first
from replayfloor.testing.server_course import ServerCourse
from replayfloor.testing.server_process import LEASE_MS, REQUEST, Process, Ticket
from replayfloor.testing.world import World

KEY = "key"

ServeFlow: TypeAlias = Callable[[Call, Options], Flow[Answer]]


@dataclass(frozen=True, slots=True)
class Faults:
    """How many of each fault one schedule may hold.

    `expiries` lets time pass that is longer than a lease, while everybody stands still.
    `lock_losses` is a flush, an eviction or a failover to an empty lock; `failovers` one to a
    replica that is behind, and `stale_reads` an answer of such a replica. `clock_steps` set the
    clock of the stores by half a lease.
    """

    crashes: int = 0
    expiries: int = 0
    lock_losses: int = 0
    lost_answers: int = 0
    failed_calls: int = 0
    cancels: int = 0
    failovers: int = 0
    stale_reads: int = 0
    clock_steps: int = 0

    def allowed(self) -> Iterator[tuple[str, int]]:
        """Return the fault's names with how many there may be."""
        return ((each.name, getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, slots=True)
class ServerScenario:
    """`processes` concurrent requests with one key, then one more; `begin` starts a schedule.

    `workers` says which worker serves each request (by default each has its own) and `keys` which
    key it has (by default the same). `periods`: handlers may take that many renewal periods.
    `renews`: their leases are renewed. `background`: nobody waits for the release of the lock;
    `ordered`: it is performed before the worker's next operation on that lock. `batches`: a worker
    may perform several claims, or several finishes, at one moment. `sequential`: each request
    arrives when the one before it is answered. `course`: another one, in which more can happen.
    """

    effects: Effects
    processes: int = 2
    faults: Faults = Faults()
    flow: ServeFlow = serve
    process: type[Process] = Process
    own_transaction: bool = False
    workers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    periods: int = 0
    renews: bool = True
    background: bool = True
    ordered: bool = True
    batches: bool = False
    sequential: bool = False
    course: type[ServerCourse] = ServerCourse
    _places: dict[Ticket, Place[Answer]] = field(
        default_factory=dict[Ticket, Place[Answer]], compare=False
    )
    _renewals: dict[Ticket, Place[None]] = field(
        default_factory=dict[Ticket, Place[None]], compare=False
    )

    def begin(self) -> ServerCourse:
        """Return a new course."""
        return self.course(self)

    @property
    def options(self) -> Options:
        """The options of the route."""
        return Options(effects=self.effects, lease_ms=LEASE_MS, cache_ms=10_000)

    def tickets(self) -> list[Ticket]:
        """Return what the requests are known by."""
        found: list[Ticket] = []
        for number in range(self.processes):
            name = f"p{number}"
            worker = self.workers[number] if self.workers else name
            key = self.keys[number] if self.keys else KEY
            fence = Fence(name.encode().ljust(16))
            id_ = receipt_id("test", None, key)
            found.append(Ticket(name, worker, id_, fence, self.own_transaction))
        return found

    def start(self, world: World, ticket: Ticket) -> Process:
        """Return a process that serves a request."""
        place = self._places.get(ticket)
        if place is None:
            place = self._places[ticket] = first(
                lambda: self.flow(self._call(ticket), self.options)
            )
        return self.process(ticket, world, place)

    def _call(self, ticket: Ticket) -> Call:
        keys = {receipt_id("test", None, key): key for key in (KEY, *self.keys)}
        line = f'"{keys[ticket.id]}"'.encode()
        return Call([line], "test", None, ticket.fence, now_ms=0)

    def renewals(self, process: Process) -> Place[None] | None:
        """Return where the renewals of a process are when the next of them is due."""
        if not self.renews:
            return None
        standing = process.renewer
        if standing is not None:
            # A renewer that has found its claim lost has ended.
            return self.after_events(standing.send(None)) if standing.effect else standing
        ticket = process.ticket
        admitted = Admitted(ticket.id, REQUEST, ticket.fence, taken_over=False)
        place = self._renewals.get(ticket)
        if place is None:
            place = self._renewals[ticket] = first(lambda: renew(admitted, self.options))
        return place

    @staticmethod
    def after_events(place: Place[None]) -> Place[None]:
        """Return the next place at which others can see what is done."""
        while isinstance(place.effect, Emit):
            place = place.send(None)
        return place
