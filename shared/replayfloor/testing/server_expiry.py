"""One key over its whole life, for the schedule explorer: retries arrive while its receipt expires.

At every step one of these happens: a request arrives, a process goes on, time passes, what has
expired is dropped, the lock forgets. The promises that are checked:

    with a key that tells its age, or with proofs, at most one effect, whatever was dropped
    no receipt is replayed after its retention, and none is withheld before; every answer the same

Assumed is what the margin is there for: the sender's clock is ahead by less than is allowed, and a
process takes no longer than a fifth of the margin from its request's arrival to the claim, and from
there, or from its finish, to the release. Its handler may take any time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Self

from replayfloor.core.claims import Acquire, Cached, Claim, Commit, Fence, Finish, Finished
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import receipt_id
from replayfloor.core.problem import ProblemKind
from replayfloor.core.uuid7 import uuid7
from replayfloor.server.effects import Execute
from replayfloor.server.flow import Answer, Call, Refused, serve
from replayfloor.server.margins import margin_ms, skew_ms
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.explore import Violation
from replayfloor.testing.explore_flow import Place, first
from replayfloor.testing.explore_states import Move
from replayfloor.testing.server_process import Process, Ticket
from replayfloor.testing.server_promises import shown_by
from replayfloor.testing.server_scenario import ServeFlow
from replayfloor.testing.world import World

START_MS = 1_000_000
RETENTION_MS = 10_000
AHEAD_MS = skew_ms(RETENTION_MS) - 1
"""As far as a sender's clock may be ahead."""

SLACK_MS = margin_ms(RETENTION_MS) - skew_ms(RETENTION_MS)
"""From the arrival of a request to its claim, and from a claim or a finish to the release."""

SLOW = (Execute, Finish, Commit)
"""Effects that a process may take longer to come to an end of: the handler's, and what ends it."""

YOUNGEST_PAST_MS = RETENTION_MS - margin_ms(RETENTION_MS) + AHEAD_MS + 1
"""Since the key was made: from here on it is too old to be executed."""

STEPS_MS = (YOUNGEST_PAST_MS - 1, SLACK_MS, 1, RETENTION_MS)
"""How time passes, in this order: to the last moment at which the key is executed, to the last at
which a request of that moment is claimed, to the end of a receipt of the first moment, and far."""


class Tells(StrEnum):
    """What tells the age of the key."""

    KEY = "key"
    FIRST_SENT = "first sent"
    NOTHING = "nothing"


class ExpiringProcess(Process):
    """A request that holds the world to its receipts' retention.

    `since_ms`: its arrival, or its last effect since on the receipts.
    """

    arrived_ms: int = 0
    since_ms: int = 0

    def key(self) -> object:
        """Return the process's value; the world has its own."""
        return (super().key(), self.arrived_ms, self.since_ms)

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect on the shared world; the flows under test may override it."""
        if not isinstance(effect, Acquire):
            self.since_ms = self.world.now_ms
        answer = super().perform(effect)
        if isinstance(effect, Acquire | Claim) and isinstance(answer, Cached | Finished):
            ended_ms = self.world.finished_ms(effect.id)
            if ended_ms is not None and ended_ms + RETENTION_MS <= self.world.now_ms:
                raise Violation("a receipt was replayed after its retention")
        return answer

    def go(self, place: Place[Answer]) -> None:
        """Be at a place of the flow; what is answered there has to be true at this moment."""
        super().go(place)
        refused = isinstance(self.answer, Refused) and self.answer.problem.kind
        if refused is not ProblemKind.KEY_EXPIRED or self.world.find(self.ticket.id) is None:
            return
        ended_ms = self.world.finished_ms(self.ticket.id)
        if ended_ms is not None and self.since_ms < ended_ms + RETENTION_MS:
            raise Violation("a key was refused as expired, and its receipt was live")


@dataclass(frozen=True, slots=True)
class ExpiryScenario:
    """`requests` with one key over its life, `at_once` at a time; `begin` starts a schedule.

    `to_proofs`: what is dropped lives on as a proof. `used`: the key has a receipt of the first
    moment, which the lock's place has lost. `ahead_ms`: the sender's clock.
    """

    tells: Tells = Tells.KEY
    effects: Effects = Effects.EXTERNAL
    requests: int = 2
    at_once: int = 2
    lock_losses: int = 0
    to_proofs: bool = False
    used: bool = False
    ahead_ms: int = AHEAD_MS
    flow: ServeFlow = serve
    process: type[ExpiringProcess] = ExpiringProcess
    _places: dict[tuple[str, int], Place[Answer]] = field(
        default_factory=dict[tuple[str, int], Place[Answer]], compare=False
    )

    def begin(self) -> ExpiryCourse:
        """Return a new course."""
        return ExpiryCourse(self)

    def start(self, world: World, name: str) -> ExpiringProcess:
        """Return a process that serves a request which arrives now."""
        sent_ms = START_MS + self.ahead_ms if self.tells is Tells.FIRST_SENT else None
        fence = Fence(name.encode().ljust(16))
        call = Call(
            (f'"{self.key}"'.encode(),),
            "test",
            None,
            fence,
            now_ms=world.now_ms,
            first_sent_ms=sent_ms,
        )
        place = self._places.get((name, world.now_ms))
        if place is None:
            place = first(lambda: self.flow(call, self.options))
            self._places[name, world.now_ms] = place
        ticket = Ticket(name, name, receipt_id("test", None, self.key), fence)
        return self.process(ticket, world, place)

    @property
    def options(self) -> Options:
        """The options of the route."""
        return Options(
            effects=self.effects,
            lease_ms=1000,
            cache_ms=RETENTION_MS,
            retention_ms=RETENTION_MS,
            proofs=self.to_proofs,
        )

    @property
    def key(self) -> str:
        """The key, made at the beginning by the sender's clock."""
        if self.tells is not Tells.KEY:
            return "key"
        return str(uuid7(START_MS + self.ahead_ms, bytes(10)))


class ExpiryCourse:
    """One schedule under way."""

    def __init__(self, scenario: ExpiryScenario) -> None:
        """Begin, with the receipt of the first moment if the key was used."""
        self._scenario = scenario
        self._world = World()
        self._world.now_ms = START_MS
        self.processes: list[ExpiringProcess] = []
        self._steps = list(STEPS_MS)
        self._losses = scenario.lock_losses
        if scenario.used:
            self._arrive()
            (first_one,) = self.processes
            while first_one.running:
                first_one.step()
            self._world.lose_locks()

    def copy(self) -> Self:
        """Return an equal course that goes on independently."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._world, other._steps = self._world.copy(), self._steps.copy()
        other.processes = [each.copy() for each in self.processes]
        for process in other.processes:
            process.world = other._world
        return other

    def key(self) -> tuple[Hashable, ...]:
        """Return what the future depends on."""
        processes = [each.key() for each in self.processes]
        return (self._world.key(), len(self._steps), self._losses, *processes)

    def moves(self) -> Sequence[Move]:
        """Return what can happen next, going on first; nothing once every request is answered."""
        running = [each for each in self.processes if each.running]
        to_come = self._scenario.requests + self._scenario.used - len(self.processes)
        if not running and not to_come:
            return []
        moves = [
            Move(f"{each.ticket.name}: {type(each.waiting_for).__name__}", partial(_step, at))
            for at, each in enumerate(self.processes)
            if each.running
        ]
        if to_come and len(running) < self._scenario.at_once:
            moves.append(Move("a request arrives", ExpiryCourse._arrive))
        if self._steps and all(self._may_wait(each) for each in running):
            moves.append(Move(f"{self._steps[0]} ms pass", ExpiryCourse._pass))
        if self._world.has_expired(RETENTION_MS):
            moves.append(Move("what has expired is dropped", ExpiryCourse._drop))
        if self._losses:
            moves.append(Move("the lock forgets", ExpiryCourse._forget))
        return moves

    def _may_wait(self, process: ExpiringProcess) -> bool:
        until_ms = self._world.now_ms + self._steps[0]
        slow = isinstance(process.waiting_for, SLOW)
        return slow or until_ms - process.since_ms <= SLACK_MS

    def _arrive(self) -> None:
        name = f"p{len(self.processes)}"
        process = self._scenario.start(self._world, name)
        process.arrived_ms = process.since_ms = self._world.now_ms
        self.processes.append(process)
        process.go(process.place)  # it may have its answer already

    def _pass(self) -> None:
        self._world.now_ms += self._steps.pop(0)

    def _drop(self) -> None:
        self._world.drop_expired(RETENTION_MS, to_proofs=self._scenario.to_proofs)

    def _forget(self) -> None:
        self._losses -= 1
        self._world.lose_locks()

    def check(self) -> None:
        """Raise Violation if a promise was broken."""
        known = self._scenario.to_proofs or self._scenario.tells is not Tells.NOTHING
        if known and len(self._world.ledger) > 1:
            raise Violation(f"executed {len(self._world.ledger)} times")
        shown = {shown_by(each, each.ticket.id) for each in self.processes} - {None}
        if known and len(shown) > 1:
            raise Violation(f"different answers: {sorted(map(str, shown))}")


def _step(at: int, course: ExpiryCourse) -> object:
    return course.processes[at].step()
