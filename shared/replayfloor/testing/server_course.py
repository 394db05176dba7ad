"""One schedule of a server scenario under way: what can happen next, and what that does.

A process goes on, or dies, is cancelled, loses an answer, cannot reach a store; a lease runs out;
time passes while handlers run and their leases are renewed; the lock forgets, or its replica takes
over. A release of the lock that nobody waits for is performed at any later moment, before the next
operation of the same worker on that lock, and never if the worker dies first. Operations of one
worker that wait for the same store may be performed at one moment, as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

from replayfloor.core.claims import Acquire, Claim, Extend, Finish, Release
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.effects import Execute, Pause
from replayfloor.testing import server_steps as steps
from replayfloor.testing.explore_states import Move
from replayfloor.testing.server_process import LEASE_MS, Process
from replayfloor.testing.server_promises import check
from replayfloor.testing.world import World

if TYPE_CHECKING:
    from replayfloor.testing.server_scenario import ServerScenario

PERIOD_MS = LEASE_MS // 3
"""Between two renewals; what `replayfloor.server.flow.period_ms` says of such a lease."""

CLOCK_STEP_MS = LEASE_MS // 2
"""Two steps forward are the end of a lease, one of each is a lease that lasts longer."""

BATCHED = (Claim, Finish)
ON_THE_LOCK = (Acquire, Extend, Release)

_Act: TypeAlias = Callable[["ServerCourse"], object]
_Option: TypeAlias = tuple[str, str, _Act]
"""A label, the fault that it uses up (or none), and what it does."""


class ServerCourse:
    """See the module. `lost` are the keys of which a process that had them ended without a trace,
    `late` those whose lease ran out while a process had them."""

    def __init__(self, scenario: ServerScenario) -> None:
        """Start the requests; nothing has happened."""
        self.scenario = scenario
        self.world = World()
        self.left = dict(scenario.faults.allowed())
        self.periods = scenario.periods
        self.unreleased: list[tuple[int, Release]] = []
        self.lost: set[ReceiptId] = set()
        self.late: set[ReceiptId] = set()
        self.processes = [scenario.start(self.world, each) for each in scenario.tickets()]

    def copy(self) -> Self:
        """Return an equal course that goes on independently."""
        other = object.__new__(type(self))
        other.scenario, other.periods = self.scenario, self.periods
        other.world, other.left = self.world.copy(), self.left.copy()
        other.unreleased = self.unreleased.copy()
        other.lost, other.late = self.lost.copy(), self.late.copy()
        other.processes = [each.copy() for each in self.processes]
        for process in other.processes:
            process.world = other.world
        return other

    def key(self) -> tuple[Hashable, ...]:
        """Return what the future depends on."""
        return (
            self.world.key(),
            *[each.key() for each in self.processes],
            (
                tuple(self.left.values()), self.periods, tuple(self.unreleased),
                frozenset(self.lost), frozenset(self.late),
            ),
        )  # fmt: skip

    def check(self) -> None:
        """Raise Violation if a promise was broken."""
        check(self)

    # -- what can happen --------------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        """Return what can happen next; nothing once every request is answered or dead."""
        if not any(each.running for each in self.processes):
            return []
        options = [*self._steps(), *self._later(), *self._batches(), *self._faults()]
        if self._may_pass():
            options.append(("time passes", "", ServerCourse._pass))
        return [
            Move(label, partial(_act, fault=fault, act=act))
            for label, fault, act in options
            if not fault or self.left.get(fault)
        ]

    def _steps(self) -> Iterator[_Option]:
        for at, process in enumerate(self.processes):
            effect = process.waiting_for
            if not process.running or effect is None or self._must_release(process, effect):
                continue
            if self.scenario.sequential and any(each.running for each in self.processes[:at]):
                continue
            name, what = process.ticket.name, type(effect).__name__
            yield f"{name}: {what}", "", partial(steps.step, at)
            if not (self.scenario.background and isinstance(effect, Release)):
                done, undone = (partial(steps.cancel, at, performed) for performed in (True, False))
                yield f"{name} is cancelled before {what}", "cancels", undone
                yield f"{name} is cancelled after {what}", "cancels", done
            if not isinstance(effect, Execute):
                lost, failed = (partial(steps.fail, at, performed) for performed in (True, False))
                yield f"{name} loses the answer of {what}", "lost_answers", lost
                yield f"{name} cannot reach {what}", "failed_calls", failed
            if isinstance(effect, Acquire) and self.world.is_replica_behind:
                yield f"{name}: a stale {what}", "stale_reads", partial(steps.read_stale, at)
            renewal = process.renewer.effect if process.renewer is not None else None
            if renewal is not None and not isinstance(renewal, Pause):
                yield f"{name}: {type(renewal).__name__}", "", partial(steps.renew, at)

    def _later(self) -> Iterator[_Option]:
        """Of each worker the release that was asked for first."""
        seen: set[str] = set()
        for number, (at, _release) in enumerate(self.unreleased):
            ticket = self.processes[at].ticket
            if ticket.worker not in seen:
                seen.add(ticket.worker)
                what = f"{ticket.name}'s release"
                yield f"{what} arrives", "", partial(steps.release_now, number)
                yield f"{what} is lost", "lost_answers", partial(steps.drop, number)

    def _batches(self) -> Iterator[_Option]:
        if not self.scenario.batches:
            return
        waiting: dict[tuple[str, str], list[int]] = {}
        for at, process in enumerate(self.processes):
            effect = process.waiting_for
            if process.running and isinstance(effect, BATCHED):
                worker = process.ticket.worker
                waiting.setdefault((worker, type(effect).__name__), []).append(at)
        for (worker, what), found in waiting.items():
            if len(found) > 1:
                yield f"{worker}: a batch of {what}", "", partial(steps.batch, found)
                lost = partial(steps.fail_batch, found, True)
                yield f"{worker} loses the answer of a batch of {what}", "lost_answers", lost
                failed = partial(steps.fail_batch, found, False)
                yield f"{worker} cannot reach a batch of {what}", "failed_calls", failed

    def _faults(self) -> Iterator[_Option]:
        for worker in sorted({each.ticket.worker for each in self.processes if each.running}):
            yield f"{worker} dies", "crashes", partial(steps.die, worker)
        yield "a lease runs out", "expiries", steps.lease_runs_out
        yield "the lock forgets", "lock_losses", lambda course: course.world.lose_locks()
        if self.world.is_replica_behind and (self.left["failovers"] or self.left["stale_reads"]):
            yield "the lock's replica catches up", "", lambda course: course.world.replicate_locks()
            fail_over: _Act = lambda course: course.world.fail_over()  # noqa: E731
            yield "the lock's replica takes over", "failovers", fail_over
        for direction, by_ms in (("forward", CLOCK_STEP_MS), ("back", -CLOCK_STEP_MS)):
            what = f"the store's clock is set {direction}"
            yield what, "clock_steps", partial(steps.set_clock, by_ms)

    def batch(self, found: Sequence[int]) -> object:
        """Perform what these processes wait for, at one moment; return the answers."""
        entries = sorted((self.processes[at] for at in found), key=lambda each: each.ticket.id)
        return tuple(each.step() for each in entries)

    def _must_release(self, process: Process, effect: Effect[object]) -> bool:
        """Whether a release is in the way of the worker's next operation on that lock."""
        if not self.scenario.ordered:
            return False
        return isinstance(effect, ON_THE_LOCK) and any(
            release.id == process.ticket.id
            and self.processes[at].ticket.worker == process.ticket.worker
            for at, release in self.unreleased
        )

    def _may_pass(self) -> bool:
        """Whether time may pass: whoever has a key is in its handler, and has renewed its lease."""
        return self.periods > 0 and all(
            not self.world.is_mine(each.ticket.id, each.ticket.fence)
            or (each.executing and not _is_due(each))
            for each in self.processes
            if each.running
        )

    def _pass(self) -> None:
        self.periods -= 1
        self.world.now_ms += PERIOD_MS
        for process in self.processes:
            if process.executing:
                process.renewer = self.scenario.renewals(process)


def _is_due(process: Process) -> bool:
    return process.renewer is not None and not isinstance(process.renewer.effect, Pause | None)


def _act(course: ServerCourse, fault: str, act: _Act) -> object:
    if fault:
        course.left[fault] -= 1
    return act(course)
