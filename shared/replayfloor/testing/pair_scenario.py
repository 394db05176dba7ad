"""A client's flow against a server's flow, for the explorer: what may happen to a pair.

How a schedule goes on is in `pair_course`, what is promised of each in `pair_promises`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from replayfloor.client.flow import operate
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Terms, Verdict
from replayfloor.core.claims import Fence
from replayfloor.core.fingerprint import ReceiptId, receipt_id
from replayfloor.server.flow import Answer, Call, serve
from replayfloor.server.margins import margin_ms
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.explore_flow import Place, first
from replayfloor.testing.pair_client import Client, Departure, OperateFlow, flow_of
from replayfloor.testing.pair_course import PairCourse
from replayfloor.testing.pair_served import LEASE_MS, RETENTION_MS, Served
from replayfloor.testing.server_process import Ticket
from replayfloor.testing.server_scenario import ServeFlow

if TYPE_CHECKING:
    from collections.abc import Hashable

WINDOW_MS = RETENTION_MS // 2
"""For so long the client sends."""

TOO_OLD_MS = RETENTION_MS - margin_ms(RETENTION_MS) + 1
"""Since the key was made: from here on the server does not execute it."""

DEADLINE = (WINDOW_MS - 1, WINDOW_MS)
HORIZON = (WINDOW_MS - 1, TOO_OLD_MS - 1, RETENTION_MS + LEASE_MS)
"""Moments that matter to a key, in ms since the first attempt."""

POLICY = RetryPolicy(attempts_max=2, wait_base_s=0.2, wait_cap_s=0.2, budget_s=30, lease_s=0.2)


@dataclass(frozen=True, slots=True)
class PairFaults:
    """How many of each fault one schedule may hold.

    `losses` are requests and answers that are lost, `timeouts` answers that are not waited for,
    `refusals` connections that are not had.
    """

    losses: int = 0
    duplicates: int = 0
    timeouts: int = 0
    refusals: int = 0
    client_crashes: int = 0
    server_crashes: int = 0
    expiries: int = 0
    lock_losses: int = 0
    lost_answers: int = 0
    failed_calls: int = 0

    def allowed(self) -> Iterator[tuple[str, int]]:
        """Return the fault's names with how many there may be."""
        return ((each.name, getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, slots=True)
class PairScenario:
    """One operation, from its first call until nothing is on its way; `begin` starts a schedule.

    `ahead_ms`: how far the client's clock is ahead of the server's. `leaps_ms`: moments until which
    everything may stand still, in this order.
    """

    effects: Effects = Effects.EXTERNAL
    faults: PairFaults = PairFaults()
    leaps_ms: tuple[int, ...] = ()
    ahead_ms: int = 0
    policy: RetryPolicy = POLICY
    operate: OperateFlow = operate
    serving: ServeFlow = serve
    client: type[Client] = Client
    served: type[Served] = Served
    _first: list[Place[Verdict]] = field(default_factory=list[Place[Verdict]], compare=False)
    _places: dict[Hashable, Place[Answer]] = field(
        default_factory=dict["Hashable", Place[Answer]], compare=False
    )

    def begin(self) -> PairCourse:
        """Return a new course."""
        return PairCourse(self)

    @property
    def retention_ms(self) -> int:
        """For how long the server keeps receipts."""
        return RETENTION_MS

    @property
    def lease_ms(self) -> int:
        """The lease of the server's claims."""
        return LEASE_MS

    @property
    def window_ms(self) -> int:
        """For how long the client sends."""
        return WINDOW_MS

    @property
    def first_place(self) -> Place[Verdict]:
        """Where every call begins."""
        if not self._first:
            margin_s = (RETENTION_MS - WINDOW_MS) / 1000
            profile = Profile(name="server", retention_s=RETENTION_MS / 1000, margin_s=margin_s)
            terms = Terms(profile=profile, policy=self.policy)
            self._first.append(first(flow_of(terms, self.operate)))
        return self._first[0]

    def id_of(self, key: str) -> ReceiptId:
        """Return what the server knows a key by."""
        return receipt_id("test", None, key)

    def serve(self, course: PairCourse, request: Departure, name: str) -> Served:
        """Begin to serve a request that arrives now."""
        fence = Fence(name.encode().ljust(16))
        known_by = (request.key, name, course.world.now_ms)
        place = self._places.get(known_by)
        if place is None:
            line = f'"{request.key}"'.encode()
            call = Call((line,), "test", None, fence, now_ms=course.world.now_ms)
            options = Options(
                effects=self.effects,
                lease_ms=LEASE_MS,
                cache_ms=RETENTION_MS,
                retention_ms=RETENTION_MS,
            )
            place = self._places[known_by] = first(lambda: self.serving(call, options))
        ticket = Ticket(name, name, self.id_of(request.key), fence)
        served = self.served(ticket, course.world, place)
        served.attempt, served.since_ms = request.attempt, course.now_ms
        return served
