"""Deliveries of one event of a webhook, for the schedule explorer: what may happen, what is kept.

The course is that of any request (`server_course`). What is promised is another thing, since a
handler may fail, and its sender delivers again until it gets a success:

at most one effect, of handlers that succeed; in repeatable any number, until one is acknowledged
once a success was answered, no handler is run that was claimed for after that
a failure is answered by the handler that failed, and by nobody else; it leaves the event to be
applied, and in atomic nothing of what it wrote
what was applied so long ago that its receipt has expired is acknowledged, and not applied again
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from replayfloor.core.claims import Claim, Claimed, Fence
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import ReceiptId, receipt_id
from replayfloor.core.message import Response
from replayfloor.core.problem import ProblemKind
from replayfloor.core.receipt import keep
from replayfloor.server.effects import Captured, Execute
from replayfloor.server.flow import (
    Answer,
    Answered,
    Call,
    Delivered,
    Recorded,
    Refused,
    Replayed,
)
from replayfloor.server.flow.deliver import identity
from replayfloor.server.policy import AfterExpiry, Effects, Options
from replayfloor.server.webhooks.delivery import Event
from replayfloor.testing.explore import Violation
from replayfloor.testing.explore_flow import Place
from replayfloor.testing.server_course import ServerCourse
from replayfloor.testing.server_process import LEASE_MS, Process, Ticket
from replayfloor.testing.server_scenario import ServerScenario
from replayfloor.testing.server_settling import settle_in
from replayfloor.testing.world import World

SCOPE, SOURCE = "webhook//hooks/shop", "shop"
EVENT = Event("evt_1", occurred_ms=0)
ID = receipt_id("test", SCOPE, f"{SOURCE}:{EVENT.id}")

RETENTION_MS = 100 * LEASE_MS
"""No schedule takes as long as the margin of this."""

FIRST = "p0"
"""The delivery whose handler fails, if one does."""


class Fails(StrEnum):
    """How the handler of the first delivery fails."""

    NOT = "not"
    ANSWERS = "answers"
    RAISES = "raises"


class Past(StrEnum):
    """Why the event is past its horizon: its time, or a receipt that has expired."""

    NOT = "not"
    TOLD = "told"
    USED = "used"


class HandlerFailed(Exception):
    """What a handler raises."""


class HookWorld(World):
    """A world that remembers which events were acknowledged."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.acknowledged: set[ReceiptId] = set()


class HookProcess(Process):
    """One delivery. `too_late`: when it claimed the event, that had been acknowledged."""

    too_late: bool = False

    def key(self) -> object:
        """Return the process's value; the world has its own."""
        return (super().key(), self.too_late)

    @property
    def hooks(self) -> HookWorld:
        """The world."""
        return cast("HookWorld", self.world)

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect on the shared world."""
        answer = super().perform(effect)
        if isinstance(effect, Claim) and isinstance(answer, Claimed):
            self.too_late = effect.id in self.hooks.acknowledged
        return answer

    def execute(self) -> Captured:
        """Run the handler, which succeeds."""
        if self.too_late:
            raise Violation("a handler was run for an event that had been acknowledged")
        return super().execute()

    def go(self, place: Place[Answer]) -> None:
        """Be at a place of the flow; an answer reaches the sender at this moment."""
        super().go(place)
        status = status_of(self.answer)
        if status is not None and is_success(status):
            self.hooks.acknowledged.add(self.ticket.id)


class AnswersFailure(HookProcess):
    """A delivery whose handler answers 500, if it is the first."""

    def execute(self) -> Captured:
        """Write, where that can be rolled back, and fail."""
        if self.ticket.name != FIRST:
            return super().execute()
        if self.in_transaction:
            self.pending.append(self.ticket.id)
        return Captured(Response(500, (), b"failed"))


class Raises(HookProcess):
    """A delivery whose handler raises, if it is the first."""

    def step(self) -> object:
        """Perform the effect and go on to the next."""
        if self.ticket.name != FIRST or not isinstance(self.waiting_for, Execute):
            return super().step()
        if self.in_transaction:
            self.pending.append(self.ticket.id)
        self.go(self.place.throw(HandlerFailed()))
        return "HandlerFailed"


PROCESSES = {Fails.NOT: HookProcess, Fails.ANSWERS: AnswersFailure, Fails.RAISES: Raises}


class HookCourse(ServerCourse):
    """One schedule under way."""

    def __init__(self, scenario: ServerScenario) -> None:
        """Start the deliveries, after what has been long ago."""
        super().__init__(scenario)
        self.world = HookWorld()
        if cast("HookScenario", scenario).past is Past.USED:
            self.world.store(ID, keep(identity(EVENT), Response(200, (), b"long ago")))
            self.world.ledger.append(ID)
            self.world.acknowledged.add(ID)
            self.world.now_ms = RETENTION_MS
        for process in self.processes:
            process.world = self.world

    def check(self) -> None:
        """Raise Violation if a promise was broken. Goes on to the very end."""
        for process in self.processes:
            self._check_answer(process)
        while self.unreleased:
            at, release = self.unreleased.pop(0)
            self.processes[at].perform(release)
        self.world.now_ms += 2 * LEASE_MS
        last = self._deliver_once_more("last")
        unknown = isinstance(last.answer, Refused) and (
            last.answer.problem.kind is ProblemKind.OUTCOME_UNKNOWN
        )
        if unknown and self.scenario.effects is Effects.EXTERNAL and ID in self.lost:
            settle_in(self.world, ID, identity(EVENT))
            last = self._deliver_once_more("after all")
        if not is_success(status_of(last.answer) or 0):
            raise Violation(f"the event cannot be applied any more: {last.answer!r}")
        self._check_effects()

    def _check_answer(self, process: Process) -> None:
        answer = process.answer
        status = status_of(answer)
        if status is None:
            return
        if is_success(status):
            past = cast("HookScenario", self.scenario).past is Past.TOLD
            if not past and ID not in self.world.ledger:
                raise Violation("acknowledged, and nothing was applied")
        elif not isinstance(answer, Answered):
            raise Violation("the failure of another delivery's handler was answered")

    def _check_effects(self) -> None:
        count = self.world.ledger.count(ID)
        if cast("HookScenario", self.scenario).past is Past.TOLD:
            if count:
                raise Violation("applied, although it was past its horizon")
        elif not count:
            raise Violation("not applied, although a delivery came through undisturbed")
        if count > 1 and self.scenario.effects is not Effects.REPEATABLE:
            raise Violation(f"applied {count} times")

    def _deliver_once_more(self, name: str) -> Process:
        ticket = Ticket(name, name, ID, Fence(name.encode().ljust(16)))
        process = self.scenario.start(self.world, ticket)
        self.processes.append(process)
        while process.running:
            process.step()
        return process


@dataclass(frozen=True, slots=True)
class HookScenario(ServerScenario):
    """Deliveries of one event at once, then one more; `begin` starts a schedule."""

    past: Past = Past.NOT
    course: type[ServerCourse] = HookCourse
    process: type[Process] = HookProcess

    @property
    def options(self) -> Options:
        """The options of a route that receives webhooks."""
        return Options(
            effects=self.effects,
            lease_ms=LEASE_MS,
            cache_ms=10_000,
            retention_ms=RETENTION_MS,
            after_expiry=AfterExpiry.ACKNOWLEDGE,
            until_success=True,
            busy_status=409,
        )

    def tickets(self) -> list[Ticket]:
        """Return what the deliveries are known by: each has its own worker."""
        names = [f"p{number}" for number in range(self.processes)]
        return [Ticket(name, name, ID, Fence(name.encode().ljust(16))) for name in names]

    def _call(self, ticket: Ticket) -> Call:
        now_ms = RETENTION_MS if self.past is Past.TOLD else 0
        return Call((), "test", SCOPE, ticket.fence, now_ms, delivered=Delivered(SOURCE, EVENT))


def status_of(answer: Answer | None) -> int | None:
    """Return the status of an answer that was the application's at some time, or stands for one."""
    match answer:
        case Answered(captured):
            return captured.response.status
        case Replayed(receipt) | Recorded(receipt):
            return receipt.response.status
        case _:
            return None


def is_success(status: int) -> bool:
    """Return whether a sender is content."""
    return 200 <= status < 300
