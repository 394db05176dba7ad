"""A world without I/O for the client's flow: a clock, a journal, a provider, and what goes wrong.

The provider executes a request at most once per key while it remembers the key, and again after
that. A process may die before or after every effect; the journal and the provider survive it.
`violations` says which promises were broken. Sync and async, sockets and httpx are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from replayfloor.client.budget import RetryBudget
from replayfloor.client.budget_rules import Refund, Spend
from replayfloor.client.effects import (
    Attempted,
    Draw,
    Emit,
    Entropy,
    Failure,
    Moment,
    Now,
    Operation,
    Reply,
    Send,
    Sleep,
)
from replayfloor.client.elapsed import is_late
from replayfloor.client.events import Event
from replayfloor.client.flow import operate
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import NS_PER_S, Profile
from replayfloor.client.progress import Terms, Verdict
from replayfloor.client.support import LIFETIME_FIELD, Learning, NoteSupport, RecallSupport
from replayfloor.client.support_memory import SupportMemory
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint, fingerprint
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.problem import in_flight
from replayfloor.core.receipt import encode_receipt, keep
from replayfloor.testing.client_faults import (
    IN_FLIGHT_MS,
    Attempt,
    Crash,
    CrashPoint,
    Departure,
    Fate,
    SimulatedProvider,
    run_until_crash,
)
from replayfloor.testing.journal_simulated import SimulatedJournal as SimulatedJournal

START_NS = 1_800_000_000 * NS_PER_S


@dataclass
class ClientWorld:
    """Everything around the flow of one operation.

    `now_ns` is the wall clock, and may be set; `boot_ns` goes on until `restart`. How much time
    has really passed is in `true_ns`, and the provider forgets by it.
    """

    profile: Profile
    policy: RetryPolicy
    attempts: Iterable[Attempt]
    operation_id: str = "invoice-1"
    now_ns: int = START_NS
    true_ns: int = START_NS
    journal: SimulatedJournal = field(default_factory=SimulatedJournal)
    departures: list[Departure] = field(default_factory=list[Departure])
    events: list[Event] = field(default_factory=list[Event])
    waits_s: list[float] = field(default_factory=list[float])
    draw: float = 0.5
    learning: Learning = Learning.SHORTEN
    keeps_responses: bool = False
    lifetime_s: int | None = None
    """What the provider says of how long it keeps keys; None if it says nothing."""
    boot_ns: int = 10**12
    boot_id: str = "boot-1"
    budget: RetryBudget = field(default_factory=RetryBudget)
    support: SupportMemory = field(default_factory=SupportMemory)

    def __post_init__(self) -> None:
        """The script begins; what follows it is answered."""
        self.provider = SimulatedProvider(self.profile.retention_s)
        self._script: Iterator[Attempt] = iter(self.attempts)
        self._entropy = 0
        self.drawn = b""
        """The last bytes drawn: those that name the last call."""
        self.first_left_ns: int | None = None

    def call(self, crash: CrashPoint | None = None) -> Verdict:
        """Call the flow once, in a process of its own; raises Crash if it dies."""
        performed = -1

        def perform(effect: Effect[object]) -> object:
            nonlocal performed
            performed += 1
            here = crash is not None and crash.effect == performed
            if here and crash is not None and not crash.after:
                raise Crash
            answer = self.perform(effect)
            if here:
                raise Crash
            return answer

        return run_until_crash(self.flow(), perform)

    def flow(self) -> Flow[Verdict]:
        """Return the flow of one call."""
        operation = Operation(
            method="POST",
            origin="https://api.example",
            path="/charges",
            fingerprint=fingerprint(
                method="POST", path=b"/charges", query=b"", content_type=b"", body=b"{}"
            ),
            operation_id=self.operation_id,
        )
        terms = Terms(
            profile=self.profile,
            policy=self.policy,
            learning=self.learning,
            keeps_responses=self.keeps_responses,
        )
        return operate(operation, terms)

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect."""
        match effect:
            case Now():
                return self.moment()
            case Draw():
                return self.draw
            case Entropy(count):
                self._entropy += 1
                self.drawn = self._entropy.to_bytes(count, "big")
                return self.drawn
            case Sleep(wait_s):
                self.waits_s.append(wait_s)
                self.pass_time(wait_s)
                return None
            case Emit(event):
                self.events.append(event)
                return None
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
            case Send():
                return self.send(effect)
            case _:
                return self.write(effect)

    def write(self, effect: Effect[object]) -> object:
        """Perform an effect of the journal."""
        match effect:
            case BeginOperation():
                return self.journal.begin(effect)
            case StartAttempt():
                return self.journal.start_attempt(effect)
            case EndAttempt():
                return self.journal.end_attempt(effect)
            case CloseOperation():
                return self.journal.close_operation(effect)
            case RenewLease():
                return self.journal.renew_lease(effect)
            case ReleaseLease():
                return self.journal.release_lease(effect)
            case ReadOperation():
                return self.journal.read(effect)
            case _:
                raise TypeError(f"an effect that this world does not know: {effect!r}")

    def send(self, send: Send) -> Attempted:
        """Perform one attempt as the script says."""
        answer, took_s = self.depart(send)
        self.pass_time(took_s)
        return answer

    def depart(self, send: Send) -> tuple[Attempted, float]:
        """Let the request of one attempt leave; return the answer, and when it arrives."""
        attempt = next(self._script, Attempt())
        if attempt.fate is Fate.REFUSED:
            return Failure("ConnectError", maybe_sent=False), 0.0
        self.pass_time(attempt.pool_wait_s)
        if self.held_back(send):
            return Failure("the send deadline passed", maybe_sent=False, fenced=True), 0.0
        entry = self.entry()
        self.departures.append(Departure(send.key, self.now_ns, self._since_first_ns(), entry))
        return self._arrive(send.key, attempt.fate), attempt.took_s

    def _since_first_ns(self) -> int:
        self.first_left_ns = self.true_ns if self.first_left_ns is None else self.first_left_ns
        return self.true_ns - self.first_left_ns

    def held_back(self, send: Send) -> bool:
        """The fence, just before the headers are written."""
        return is_late(send, self.moment())

    def moment(self) -> Moment:
        """What the clocks show."""
        return Moment(self.now_ns, self.boot_ns, self.boot_id)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, on every clock."""
        passed_ns = int(seconds * NS_PER_S)
        self.true_ns += passed_ns
        self.now_ns += passed_ns
        self.boot_ns += passed_ns

    def restart(self, name: str) -> None:
        """Boot the machine again: its boot clock begins anew."""
        self.boot_id, self.boot_ns = name, 0

    def _arrive(self, key: str, fate: Fate) -> Attempted:
        if fate is Fate.REQUEST_LOST:
            return Failure("ReadError", maybe_sent=True)
        if fate is Fate.TURNED_AWAY:
            return Reply(Response(429, (), b""))
        if fate is Fate.INVALID:
            return Reply(Response(400, (), b""))
        if fate is Fate.IN_FLIGHT:
            return Reply(in_flight(IN_FLIGHT_MS).to_response())
        answer = self.provider.receive(key, self.true_ns)
        if fate is Fate.REPLY_LOST:
            return Failure("ReadTimeout", maybe_sent=True)
        if fate is Fate.BROKEN_GATEWAY:
            return Reply(Response(502, (), b""))
        if self.lifetime_s is not None:
            lifetime = (LIFETIME_FIELD, str(self.lifetime_s).encode())
            answer = replace(answer, headers=(*answer.headers, lifetime))
        return Reply(answer, kept=self._kept(answer) if self.keeps_responses else None)

    @staticmethod
    def _kept(answer: Response) -> bytes:
        return encode_receipt(keep(Fingerprint(bytes(DIGEST_BYTES)), answer))

    def entry(self) -> JournalEntry | None:
        """Return what the journal holds of the operation."""
        found = [
            entry for entry in self.journal.versions if entry.operation_id == self.operation_id
        ]
        return found[-1] if found else None


def violations(world: ClientWorld) -> list[str]:
    """Return the promises that were broken; empty if all were kept."""
    found: list[str] = []
    left = world.departures
    if len({departure.key for departure in left}) > 1:
        found.append("more than one key was sent")
    if len(world.provider.executions) > 1:
        found.append("it was executed more than once")
    for departure in left:
        if departure.entry is None or departure.entry.key != departure.key:
            found.append("a request left before its entry was in the journal")
        elif departure.entry.attempts <= departure.entry.attempts_ended:
            found.append("a request left that the journal had not counted")
        elif departure.at_ns >= departure.entry.send_deadline_ns or _is_late(departure):
            found.append("a request left at or past the send deadline")
        elif departure.entry.state is OperationState.UNKNOWN_FINAL:
            found.append("a request left after the operation was closed")
    if any(map(_is_done_in_doubt, world.journal.versions)):
        found.append("an operation was done of which nobody knew whether it was executed")
    worst = [entry.worst for entry in world.journal.versions]
    if any(later < earlier for earlier, later in pairwise(worst)):
        found.append("the worst outcome decreased")
    return found


def _is_done_in_doubt(entry: JournalEntry) -> bool:
    """Whether the entry hides what nobody will look for: done is not listed as pending."""
    known = entry.known is Outcome.DEFINITIVE or executed_nothing(entry.known)
    return entry.state is OperationState.DONE and not known


def _is_late(departure: Departure) -> bool:
    """Whether the deadline had passed by the time that really passed since the first request."""
    entry = departure.entry
    assert entry is not None
    return departure.elapsed_ns >= entry.send_deadline_ns - entry.first_attempt_at_ns
