"""One key over its whole life, for the schedule explorer: retries arrive while its receipt expires.

Before every effect the chooser decides what happens: a request arrives, a process goes on, time
passes, what has expired is dropped, the lock forgets. The promises that are checked:

    with a key that tells its age, or with proofs, at most one effect, whatever was dropped
    no receipt is replayed after its retention; every answer the same

Assumed is what the margin is there for: the sender's clock is ahead by less than is allowed, and a
process takes no longer than a fifth of the margin from its request's arrival to the claim, and from
there, or from its finish, to the release. Its handler may take any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from replayfloor.core.claims import Acquire, Cached, Claim, Commit, Fence, Finish, Finished
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import ReceiptId, receipt_id
from replayfloor.core.uuid7 import uuid7
from replayfloor.server.effects import Execute
from replayfloor.server.flow import Answered, Call, Recorded, Replayed, serve
from replayfloor.server.margins import margin_ms, skew_ms
from replayfloor.server.policy import Effects, Options
from replayfloor.testing.explore import Chooser, Violation
from replayfloor.testing.server_scenario import Process, ServeFlow
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


@dataclass(frozen=True, slots=True)
class ExpiryScenario:
    """`requests` with one key over its life, `at_once` at a time; call it with a Chooser.

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

    def __call__(self, chooser: Chooser) -> None:
        """Run one schedule. Raises Violation if a promise was broken."""
        course = _Course(self)
        while moves := course.moves():
            labels = [label for label, _move in moves]
            _label, move = moves[chooser.choose(labels) if len(labels) > 1 else 0]
            move()
        course.check()

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


_Moves: TypeAlias = list[tuple[str, Callable[[], None]]]


class _Course:
    """One schedule under way."""

    def __init__(self, scenario: ExpiryScenario) -> None:
        self._scenario = scenario
        self._world = World()
        self._world.now_ms = START_MS
        self._id: ReceiptId = receipt_id("test", None, scenario.key)
        self._processes: list[ExpiringProcess] = []
        self._steps = list(STEPS_MS)
        self._losses = scenario.lock_losses
        if scenario.used:
            self._arrive()
            (first,) = self._processes
            while first.running:
                first.step()
            self._world.lose_locks()

    def moves(self) -> _Moves:
        """Return what can happen next, going on first; nothing once every request is answered."""
        running = [each for each in self._processes if each.running]
        to_come = self._scenario.requests + self._scenario.used - len(self._processes)
        if not running and not to_come:
            return []
        moves: _Moves = [
            (f"{each.name}: {type(each.waiting_for).__name__}", each.step) for each in running
        ]
        if to_come and len(running) < self._scenario.at_once:
            moves.append(("a request arrives", self._arrive))
        if self._steps and all(self._may_wait(each) for each in running):
            moves.append((f"{self._steps[0]} ms pass", self._pass))
        if self._world.has_expired(RETENTION_MS):
            moves.append(("what has expired is dropped", self._drop))
        if self._losses:
            moves.append(("the lock forgets", self._forget))
        return moves

    def _may_wait(self, process: ExpiringProcess) -> bool:
        until_ms = self._world.now_ms + self._steps[0]
        slow = isinstance(process.waiting_for, SLOW)
        return slow or until_ms - process.since_ms <= SLACK_MS

    def _arrive(self) -> None:
        scenario, name = self._scenario, f"p{len(self._processes)}"
        sent_ms = START_MS + scenario.ahead_ms if scenario.tells is Tells.FIRST_SENT else None
        call = Call(
            [f'"{scenario.key}"'.encode()],
            "test",
            None,
            Fence(name.encode().ljust(16)),
            now_ms=self._world.now_ms,
            first_sent_ms=sent_ms,
        )
        process = scenario.process(name, self._world, scenario.flow(call, scenario.options))
        process.arrived_ms = process.since_ms = self._world.now_ms
        process.start()
        self._processes.append(process)

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
        shown = {_shown(each.answer) for each in self._processes} - {None}
        if known and len(shown) > 1:
            raise Violation(f"different answers: {sorted(map(str, shown))}")


def _shown(answer: object) -> bytes | None:
    match answer:
        case Answered(captured):
            return captured.response.body
        case Replayed(receipt) | Recorded(receipt):
            return receipt.response.body
        case _:
            return None
