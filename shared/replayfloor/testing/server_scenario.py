"""Several processes that serve one key, with faults, for the schedule explorer.

Each process runs a server flow. Before every effect on a shared system the chooser decides what
happens: a process goes on, or dies there; a lease runs out; the lock forgets; an answer is lost.
Afterwards one more request arrives, undisturbed, and the promises are checked:

    at most one effect; every answer the same; the key is not stuck; unknown only after a crash;
    in atomic, exactly one effect in the end, and so with a transaction of the handler's own;
    in repeatable, any number of effects, but only one answer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Begin,
    Claim,
    Commit,
    Fence,
    Finish,
    LockUnavailable,
    Release,
    Rollback,
)
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import ClaimLost, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, ReceiptId, receipt_id
from replayfloor.core.message import Response
from replayfloor.core.problem import ProblemKind
from replayfloor.core.receipt import keep
from replayfloor.server.effects import Captured, Emit, Execute, Pause, ReadRequest, RequestRead
from replayfloor.server.flow import Answer, Answered, Call, Refused, Replayed, serve
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.explore import Chooser, Violation
from replayfloor.testing.world import World

KEY = "key"
REQUEST = Fingerprint(b"r" * 16)

ServeFlow: TypeAlias = Callable[[Call, Options], Flow[Answer]]

LOCAL = (Emit, ReadRequest, Rollback, Pause)
"""Effects that no other process can see: nothing is gained by choosing an order for them."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How many of each fault one schedule may hold."""

    crashes: int = 0
    expiries: int = 0
    lock_losses: int = 0
    lost_answers: int = 0
    failed_calls: int = 0


@dataclass(slots=True)
class Process:
    """One execution of the flow, and what it holds in its own memory."""

    name: str
    world: World
    flow: Flow[Answer]
    waiting_for: Effect[object] | None = None
    answer: Answer | None = None
    dead: bool = False
    pending: list[ReceiptId] = field(default_factory=list[ReceiptId])
    fence: Fence | None = None
    owns: bool = False
    in_transaction: bool = False

    def start(self) -> None:
        """Go to the first effect that matters to others."""
        self._advance(lambda: next(self.flow))

    @property
    def running(self) -> bool:
        """Whether there is a next step."""
        return self.waiting_for is not None and not self.dead

    def step(self) -> None:
        """Perform the effect and go on to the next."""
        effect = self.waiting_for
        assert effect is not None
        try:
            answer = self.perform(effect)
        except ClaimLost as error:
            lost = error  # the name in the except clause ends with it
            self._advance(lambda: self.flow.throw(lost))
        else:
            self._advance(lambda: self.flow.send(answer))

    def fail(self, *, performed: bool) -> None:
        """Go on as if the store had not answered; the effect may have been performed."""
        effect = self.waiting_for
        assert effect is not None
        if performed:
            self.perform(effect)
        if isinstance(effect, Acquire):
            self._advance(lambda: self.flow.send(LockUnavailable()))
        elif isinstance(effect, Release):
            self._advance(lambda: self.flow.send(False))
        else:
            lost = StoreUnavailable("lost", performed=None if performed else False)
            self._advance(lambda: self.flow.throw(lost))

    def die(self) -> None:
        """Stop here; an open transaction is rolled back by its database."""
        self.dead = True
        self.flow.close()

    def _advance(self, move: Callable[[], Effect[object]]) -> None:
        try:
            effect = move()
            while isinstance(effect, LOCAL):
                effect = self.flow.send(self._perform_local(effect))
            self.waiting_for = effect
        except StopIteration as stop:
            self.waiting_for = None
            self.answer = stop.value
        except ClaimLost:
            self.waiting_for = None

    def _perform_local(self, effect: Effect[object]) -> object:
        match effect:
            case ReadRequest():
                return RequestRead(REQUEST)
            case Rollback():
                self.pending.clear()
                self.in_transaction = False
            case Pause(pause_ms):
                self.world.now_ms += pause_ms
            case _:
                pass
        return None

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect on the shared world; the flows under test may override it."""
        match effect:
            case Acquire():
                return self.world.acquire(effect)
            case Release():
                return self.world.release(effect)
            case Claim():
                return self.world.claim(effect)
            case Finish():
                return self.world.finish(effect)
            case Abandon():
                return self.world.abandon(effect)
            case Begin():
                self.in_transaction = True
                return None
            case Execute():
                return self._execute()
            case Commit(finish):
                return self._commit(finish)
            case _:
                raise TypeError(f"no system performs {effect!r}")

    def _execute(self) -> Captured:
        if self.owns:
            return self._execute_in_own_transaction()
        written = self.pending if self.in_transaction else self.world.ledger
        written.append(receipt_id("test", None, KEY))
        return Captured(Response(201, (), f"executed by {self.name}".encode()))

    def _execute_in_own_transaction(self) -> Captured:
        """Write the effect and the receipt in one commit, as `claim.finish_in` lets a handler."""
        id_ = receipt_id("test", None, KEY)
        response = Response(201, (), f"executed by {self.name}".encode())
        receipt = keep(REQUEST, response)
        assert self.fence is not None
        if not self.world.finish(Finish(id_, self.fence, receipt)):
            raise ClaimLost("rolled back")
        self.world.ledger.append(id_)
        return Captured(response, recorded=receipt)

    def _commit(self, finish: Finish) -> bool:
        committed = self.world.finish(finish)
        if committed:
            self.world.ledger += self.pending
        self.pending.clear()
        self.in_transaction = False
        return committed


@dataclass(frozen=True, slots=True)
class ServerScenario:
    """`processes` concurrent requests with one key, then one more; call it with a Chooser."""

    effects: Effects
    processes: int = 2
    faults: Faults = Faults()
    flow: ServeFlow = serve
    process: type[Process] = Process
    own_transaction: bool = False

    def __call__(self, chooser: Chooser) -> None:
        """Run one schedule. Raises Violation if a promise was broken."""
        world = World()
        running = [self._start(world, f"p{number}") for number in range(self.processes)]
        crashed = _interleave(chooser, world, running, self.faults)
        world.now_ms += 2 * self._options.lease_ms
        last = self._start(world, "last")
        while last.running:
            last.step()
        answers = [p.answer for p in (*running, last) if p.answer is not None]
        self._check(world, answers, last.answer, crashed=crashed)

    @property
    def _options(self) -> Options:
        return Options(effects=self.effects, lease_ms=1000, cache_ms=10_000)

    def _start(self, world: World, name: str) -> Process:
        fence = Fence(name.encode().ljust(16))
        call = Call([b'"key"'], "test", None, fence, now_ms=0)
        process = self.process(name, world, self.flow(call, self._options))
        process.fence, process.owns = fence, self.own_transaction
        process.start()
        return process

    def _check(
        self, world: World, answers: list[Answer], last: Answer | None, *, crashed: bool
    ) -> None:
        once = self.effects is not Effects.REPEATABLE or self.own_transaction
        if once and len(world.ledger) > 1:
            raise Violation(f"executed {len(world.ledger)} times")
        if self.effects is not Effects.EXTERNAL and not world.ledger:
            raise Violation("not executed, although a request came through undisturbed")
        shown = {shown for answer in answers if (shown := _shown(answer)) is not None}
        if len(shown) > 1:
            raise Violation(f"different answers: {sorted(shown)}")
        kind = last.problem.kind if isinstance(last, Refused) else None
        if kind is ProblemKind.OUTCOME_UNKNOWN and crashed and self.effects is Effects.EXTERNAL:
            return
        if kind is not None:
            raise Violation(f"the key is stuck: {kind} long after the last lease ended")


def _interleave(chooser: Chooser, world: World, processes: list[Process], faults: Faults) -> bool:
    """Let the processes run in the order the chooser says; return whether one died."""
    left = {
        "dies before": faults.crashes,
        "a lease runs out": faults.expiries,
        "the lock forgets": faults.lock_losses,
        "loses the answer of": faults.lost_answers,
        "cannot reach": faults.failed_calls,
    }
    while running := [process for process in processes if process.running]:
        options = _options(running, left)
        labels = [label for label, _fault, _move in options]
        _label, fault, move = options[chooser.choose(labels) if len(labels) > 1 else 0]
        left[fault] = left.get(fault, 0) - 1
        move(world)
    return any(process.dead for process in processes)


Move: TypeAlias = Callable[[World], None]


def _options(running: list[Process], left: dict[str, int]) -> list[tuple[str, str, Move]]:
    """Return (label, the fault it uses up, what to do), going on first."""
    options: list[tuple[str, str, Move]] = []
    for process in running:
        what = type(process.waiting_for).__name__
        options.append((f"{process.name}: {what}", "", _go_on(process)))
        for fault, move in _process_faults(process):
            if left[fault] > 0:
                options.append((f"{process.name} {fault} {what}", fault, move))
    if left["a lease runs out"] > 0:
        options.append(("a lease runs out", "a lease runs out", _lease_runs_out))
    if left["the lock forgets"] > 0:
        options.append(("the lock forgets", "the lock forgets", World.lose_locks))
    return options


def _go_on(process: Process) -> Move:
    return lambda _world: process.step()


def _process_faults(process: Process) -> list[tuple[str, Move]]:
    faults: list[tuple[str, Move]] = [("dies before", lambda _world: process.die())]
    if not isinstance(process.waiting_for, Execute):
        faults.append(("loses the answer of", lambda _world: process.fail(performed=True)))
        faults.append(("cannot reach", lambda _world: process.fail(performed=False)))
    return faults


def _lease_runs_out(world: World) -> None:
    world.now_ms += 1001


def _shown(answer: Answer) -> bytes | None:
    match answer:
        case Answered(captured):
            return captured.response.body
        case Replayed(receipt):
            return receipt.response.body
        case _:
            return None
