"""Every order in which several calls of one operation can meet: crashes, restarts, odd clocks.

A call is a process of its own. It runs by itself between the effects that others can notice (the
journal's, and the departure of a request); which process performs its next one, which one dies,
and when a clock is set or a machine stands still, is for the Chooser to say. Time passes when
everybody waits. A process that died is followed by one that starts over with the same operation.

A Violation says which promise was broken. Processes share the world's journal and provider, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from replayfloor.client.budget import RetryBudget
from replayfloor.client.budget_rules import Refund, Spend
from replayfloor.client.effects import Send, Sleep
from replayfloor.client.events import Ending
from replayfloor.client.profiles import NS_PER_S
from replayfloor.client.progress import Verdict
from replayfloor.client.support import NoteSupport, RecallSupport
from replayfloor.client.support_memory import SupportMemory
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.outcome import executed_nothing
from replayfloor.testing.client_world import ClientWorld, violations
from replayfloor.testing.explore import Chooser, Violation

STEPS_MAX = 400
"""A run that takes more does not end: every call has a budget of attempts and of time."""

SIMULTANEOUS = "two requests were under way at once, each of a call with the lease"
UNTRUE = "a call said that nothing was executed, and something was"
JOURNAL = (
    BeginOperation,
    StartAttempt,
    EndAttempt,
    CloseOperation,
    RenewLease,
    ReleaseLease,
    ReadOperation,
)
NOTICED = (*JOURNAL, Send, Sleep)
TELLS = (BeginOperation, StartAttempt, EndAttempt, CloseOperation)
"""The effects whose answers tell a call what is known."""


@dataclass(frozen=True, slots=True)
class Leap:
    """Something that happens to the machine, at most once per run.

    `stands_still_s`: everything stops for so long, as under a debugger or in a suspended machine.
    `wall_step_s`: the wall clock is set by so much. `boots`: every process dies, and the boot clock
    begins anew.
    """

    label: str
    stands_still_s: float = 0.0
    wall_step_s: float = 0.0
    boots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What may happen: so many calls at once, so many that die, and these leaps."""

    calls: int = 2
    crashes: int = 1
    leaps: tuple[Leap, ...] = ()


@dataclass
class Process:
    """One call, and where it is. `effect` is what it wants to do next; None if it is over."""

    name: str
    flow: Flow[Verdict]
    effect: Effect[object] | None = None
    wakes_ns: int | None = None
    answer: object = None
    verdict: Verdict | None = None
    lease_until_ns: int = 0
    executions_seen: int = 0
    budget: RetryBudget = field(default_factory=RetryBudget)
    support: SupportMemory = field(default_factory=SupportMemory)

    def perform(self, effect: Effect[object], world: ClientWorld) -> object:
        """Perform an effect that nobody else can notice."""
        match effect:
            case Spend():
                return self.budget.spend(effect)
            case Refund():
                self.budget.refund(effect)
                return None
            case RecallSupport():
                return self.support.recall(effect)
            case NoteSupport():
                self.support.note(effect)
                return None
            case _:
                return world.perform(effect)

    @property
    def sending(self) -> bool:
        """Whether its request is under way."""
        return isinstance(self.effect, Send) and self.wakes_ns is not None


class Machine:
    """The processes of one world, one step at a time."""

    def __init__(self, world: ClientWorld, scenario: Scenario) -> None:
        """Start the calls; each runs up to the first effect that others can notice."""
        self.world = world
        self.processes: list[Process] = []
        self.verdicts: list[Verdict] = []
        self._crashes = scenario.crashes
        self._leaps = list(scenario.leaps)
        self._started = 0
        for _ in range(scenario.calls):
            self._start()

    def run(self, chooser: Chooser) -> None:
        """Run until every call is over; raises Violation if a promise was broken."""
        for _ in range(STEPS_MAX):
            if not self.processes:
                break
            actions = self._actions()
            actions[chooser.choose([label for label, _ in actions])][1]()
        else:
            raise Violation("the calls do not end")
        if found := violations(self.world):
            raise Violation("; ".join(found))

    def _actions(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what could happen next."""
        found: list[tuple[str, Callable[[], None]]] = []
        for process in self.processes:
            if process.wakes_ns is None:
                label = f"{process.name}: {type(process.effect).__name__}"
                found.append((label, partial(self._step, process)))
        if not found:
            found.append(("time passes", self._wake))
        if self._crashes:
            # Who dies in a wait dies just as well before what follows it.
            mortal = [each for each in self.processes if each.wakes_ns is None or each.sending]
            found += [(f"{each.name} dies", partial(self._die, each)) for each in mortal]
        found += [(leap.label, partial(self._leap, leap)) for leap in self._leaps]
        return found

    def _start(self) -> None:
        self._started += 1
        process = Process(chr(ord("A") + self._started - 1), self.world.flow())
        self.processes.append(process)
        self._run_alone(process, partial(next, process.flow))

    def _step(self, process: Process) -> None:
        """Perform the effect of one process, and run it to its next one."""
        effect = process.effect
        assert effect is not None
        if isinstance(effect, Send):
            self._depart(process, effect)
            return
        try:
            answer = self.world.write(effect)
        except StoreUnavailable as error:
            self._run_alone(process, partial(process.flow.throw, error))
            return
        if isinstance(effect, BeginOperation | StartAttempt):
            process.lease_until_ns = _lease_until_ns(effect, answer)
        if isinstance(effect, TELLS):
            process.executions_seen = len(self.world.provider.executions)
        self._run_alone(process, partial(process.flow.send, answer))

    def _depart(self, process: Process, send: Send) -> None:
        under_way = [each for each in self.processes if each.sending]
        left = len(self.world.departures)
        process.answer, took_s = self.world.depart(send)
        if len(self.world.departures) > left:
            # A call that stood still between its lease and its send cannot know that it ended.
            now_ns = self.world.journal.clock_ns(self.world.now_ns)
            leased = [each for each in (process, *under_way) if each.lease_until_ns > now_ns]
            if len(leased) > 1:
                raise Violation(SIMULTANEOUS)
        process.wakes_ns = self.world.true_ns + int(took_s * NS_PER_S)

    def _wake(self) -> None:
        """Let the time pass until somebody's wait is over."""
        wakes_ns = min(each.wakes_ns for each in self.processes if each.wakes_ns is not None)
        self.world.pass_time(max(0, wakes_ns - self.world.true_ns) / NS_PER_S)
        for process in list(self.processes):
            if process.wakes_ns is not None and process.wakes_ns <= wakes_ns:
                process.wakes_ns = None
                answer = process.answer if isinstance(process.effect, Send) else None
                self._run_alone(process, partial(process.flow.send, answer))

    def _run_alone(self, process: Process, advance: Callable[[], Effect[object]]) -> None:
        """Run a process through the effects that nobody else can notice."""
        try:
            effect = advance()
            while not isinstance(effect, NOTICED):
                effect = process.flow.send(process.perform(effect, self.world))
        except StopIteration as stop:
            self._finish(process, cast("Verdict", stop.value))
            return
        process.effect = effect
        if isinstance(effect, Sleep):
            process.wakes_ns = self.world.true_ns + int(effect.wait_s * NS_PER_S)

    def _finish(self, process: Process, verdict: Verdict) -> None:
        self.processes.remove(process)
        self.verdicts.append(verdict)
        says_nothing = verdict.ending is Ending.NOT_EXECUTED or executed_nothing(verdict.outcome)
        if says_nothing and process.executions_seen:
            raise Violation(UNTRUE)

    def _die(self, process: Process) -> None:
        """Drop a process: it cleans nothing up, and another one starts over."""
        self._crashes -= 1
        self._drop(process)
        self._start()

    def _drop(self, process: Process) -> None:
        process.flow.close()
        self.processes.remove(process)

    def _leap(self, leap: Leap) -> None:
        self._leaps.remove(leap)
        self.world.pass_time(leap.stands_still_s)
        self.world.now_ns += int(leap.wall_step_s * NS_PER_S)
        if leap.boots:
            self.world.restart(leap.label)
            for process in list(self.processes):
                self._drop(process)
                self._start()


def _lease_until_ns(effect: BeginOperation | StartAttempt, answer: object) -> int:
    """Return until when the lease is that of the call which asked for it; 0 if it is not."""
    asked = effect.entry if isinstance(effect, BeginOperation) else effect
    entry = answer.entry if isinstance(answer, Begun) else answer
    assert isinstance(entry, JournalEntry)
    return entry.lease_until_ns if entry.lease_owner == asked.lease_owner else 0


def visit(world: ClientWorld, scenario: Scenario, chooser: Chooser) -> list[Verdict]:
    """Run one schedule in a new world; return how the calls ended. Raises Violation."""
    machine = Machine(world, scenario)
    machine.run(chooser)
    return machine.verdicts
