"""The client of a pair: the calls of one operation, one at a time, and the journal they share.

A call's flow stops at what others can notice: the journal's effects, a request that leaves, a wait.
What the network and the server make of a request is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from replayfloor.client.budget_rules import Refund, Spend
from replayfloor.client.effects import (
    Draw,
    Emit,
    Entropy,
    Moment,
    Now,
    Operation,
    Send,
    Sleep,
)
from replayfloor.client.elapsed import is_late
from replayfloor.client.flow import operate
from replayfloor.client.profiles import NS_PER_S
from replayfloor.client.progress import Terms, Verdict
from replayfloor.client.support import NoteSupport, RecallSupport
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
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
from replayfloor.core.journal_rules import (
    as_inserted,
    with_attempt_ended,
    with_attempt_started,
    with_lease_released,
    with_lease_renewed,
    with_operation_closed,
)
from replayfloor.testing.explore_flow import Place
from replayfloor.testing.explore_states import State

NS_PER_MS = 1_000_000
START_MS = 1_800_000_000_000
BOOT_NS = 10**12
PATIENCE_MS = 500
"""How long the client waits for an answer before it gives up, if it does."""

OPERATION = Operation(
    method="POST",
    origin="https://api.example",
    path="/charges",
    fingerprint=Fingerprint(bytes(DIGEST_BYTES)),
    operation_id="invoice-1",
)

OperateFlow: TypeAlias = Callable[[Operation, Terms], Flow[Verdict]]

ALONE: TypeAlias = (
    Now | Draw | Entropy | Emit | Spend | Refund | RecallSupport | NoteSupport
)  # fmt: skip
"""Effects that nobody else can notice."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A request that left: its attempt, its key, and the journal's entry at that moment."""

    attempt: int
    key: str
    first_sent_ms: int
    at_ms: int
    entry: JournalEntry | None


class Client(State):
    """What one machine knows: its clock, its journal, and the call that runs on it.

    `ahead_ms`: how far its clock is ahead of the server's. `awaits`: the attempt whose answer it
    waits for. `wakes_ms`: when its wait is over, in time that really passes.
    """

    def __init__(self, ahead_ms: int, place: Place[Verdict]) -> None:
        """Begin the first call, at the beginning of time."""
        self.ahead_ms, self.now_ms = ahead_ms, 0
        self.entry: JournalEntry | None = None
        self.calls = 0
        self.drawn = 0
        self.attempts = 0
        self.awaits: int | None = None
        self.wakes_ms: int | None = None
        self.begin(place)

    def begin(self, place: Place[Verdict]) -> None:
        """Start a call in a process of its own; it remembers nothing but the journal."""
        self.calls += 1
        self.awaits = self.wakes_ms = None
        self.place = self._settled(place)

    @property
    def effect(self) -> Effect[object] | None:
        """What the call wants to do next; None if it is over."""
        return self.place.effect

    @property
    def verdict(self) -> Verdict | None:
        """How the call ended, if it has."""
        return self.place.result

    @property
    def moment(self) -> Moment:
        """What its clocks show."""
        wall_ms = START_MS + self.now_ms + self.ahead_ms
        return Moment(wall_ms * NS_PER_MS, BOOT_NS + self.now_ms * NS_PER_MS, "boot")

    def answer(self, answer: object) -> None:
        """Go on with an answer, to the next effect that others can notice."""
        self.awaits = self.wakes_ms = None
        self.place = self._settled(self.place.send(answer))
        if isinstance(self.place.effect, Sleep):
            self.wakes_ms = self.now_ms + -(-int(self.place.effect.wait_s * NS_PER_S) // NS_PER_MS)

    def _settled(self, place: Place[Verdict]) -> Place[Verdict]:
        while isinstance(place.effect, ALONE):
            place = place.send(self._perform_alone(place.effect))
        if place.failure is not None:
            raise place.failure
        return place

    def _perform_alone(self, effect: ALONE) -> object:
        match effect:
            case Now():
                return self.moment
            case Draw():
                return 0.5
            case Entropy(count):
                self.drawn += 1
                return self.drawn.to_bytes(count, "big")
            case Spend():
                return True
            case Emit() | Refund() | RecallSupport() | NoteSupport():
                return None

    def write(self, effect: Effect[object]) -> object:
        """Perform an effect of the journal, which other versions of it may override."""
        if isinstance(effect, BeginOperation):
            resumed = self.entry is not None
            if self.entry is None:
                self.entry = as_inserted(effect, self.moment.wall_ns)
            return Begun(self.entry, resumed=resumed)
        entry, now_ns = self.entry, self.moment.wall_ns
        assert entry is not None
        match effect:
            case ReadOperation():
                return entry
            case StartAttempt():
                self.entry = with_attempt_started(entry, effect, now_ns)
            case EndAttempt():
                self.entry = with_attempt_ended(entry, effect)
            case CloseOperation():
                self.entry = with_operation_closed(entry, effect)
            case RenewLease():
                self.entry = with_lease_renewed(entry, effect, now_ns)
            case ReleaseLease():
                self.entry = with_lease_released(entry, effect)
            case _:
                raise TypeError(f"an effect that this world does not know: {effect!r}")
        return self.entry

    def held_back(self, send: Send) -> bool:
        """The fence, just before the headers are written."""
        return is_late(send, self.moment)

    def depart(self, send: Send) -> Departure:
        """Let a request leave; its answer is waited for."""
        self.attempts += 1
        self.awaits = self.attempts
        first_ms = send.first_attempt_at_ns // NS_PER_MS
        return Departure(self.attempts, send.key, first_ms, self.now_ms, self.entry)


def flow_of(terms: Terms, flow: OperateFlow = operate) -> Callable[[], Flow[Verdict]]:
    """Return what begins a call."""
    return lambda: flow(OPERATION, terms)
