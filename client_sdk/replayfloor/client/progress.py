"""What one call of the flow knows while it goes on: its clocks, its knowledge, its verdict.

Everything here is arithmetic on what the flow was told; nothing is asked for.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, TypedDict

from replayfloor.client.classify import Finding
from replayfloor.client.effects import Moment
from replayfloor.client.elapsed import behind_s, elapsed_ns
from replayfloor.client.events import Ending
from replayfloor.client.support import Support, deadline_after, retention_after
from replayfloor.client.terms import Terms as Terms
from replayfloor.core.journal import JournalEntry, OperationState
from replayfloor.core.journal_rules import NS_PER_S
from replayfloor.core.making import maker
from replayfloor.core.outcome import Outcome, executed_nothing, join
from replayfloor.core.values import frozen

UNPROVEN: Final = (
    "the server has not shown that it knows idempotency keys, so that sending it again could "
    "execute it again"
)


class EventFacts(TypedDict):
    """The fields that every event has."""

    at_ns: int
    provider: str
    namespace: str
    operation_id: str
    method: str
    origin: str
    attempt: int
    elapsed_s: float
    retention_s: float | None
    outcome: Outcome
    resumed: bool


@frozen
class Verdict:
    """How a call ends. `entry` is the journal's, `detail` says more, `cause` is what went wrong.
    `seen_ns` is what the wall clock showed last, ns since 1970.

    `burnt`: it is unknown before the send deadline, because the key will never tell.
    """

    _: KW_ONLY
    ending: Ending
    entry: JournalEntry
    seen_ns: int
    elapsed_s: float
    outcome: Outcome
    resumed: bool
    replayed: bool
    detail: str
    cause: Exception | None = None
    burnt: bool = False


_DEFINITIVE: Final = Outcome.DEFINITIVE
_RETURNED: Final = Ending.RETURNED
_UNKNOWN: Final = Ending.UNKNOWN
"""Looked up once: before Python 3.12 to look up a member takes as long as to call a function."""

_new_verdict: Final = maker(Verdict)


@dataclass(slots=True)
class Progress:
    """One call.

    `counted`: the journal counts the next attempt already. `leased`: the lease may be this call's.
    `elapsed_ns` is since the operation's first attempt, and only grows. `paid`: tokens that the
    last retry took from the budget. `stored_retention_s`: the retention that the journal has.
    """

    terms: Terms
    entry: JournalEntry
    owner: bytes
    seen: Moment
    elapsed_ns: int = 0
    began_ns: int = 0
    attempt_began_ns: int = 0
    wall_seen_ns: int = 0
    resumed: bool = False
    counted: bool = True
    leased: bool = True
    known: Outcome = Outcome.NOT_SENT
    finding: Finding | None = None
    draw: float = 0.0
    paid: int = 0
    support: Support | None = None
    stored_retention_s: float = 0.0

    def take(self, entry: JournalEntry) -> None:
        """Take note of the entry as it stands in the journal."""
        self.entry = entry
        self.stored_retention_s = entry.retention_s
        if self.support is not None:
            self.expect(self.support)

    def adopt(self, standing: JournalEntry) -> None:
        """Continue an operation that the journal knows."""
        self.take(standing)
        self.elapsed_ns = elapsed_ns(standing, self.seen)
        self.began_ns = self.elapsed_ns
        self.resumed, self.counted, self.leased = True, False, False
        self.known = standing.known

    def hear(self, entry: JournalEntry) -> None:
        """Take note of what another call has written."""
        self.take(entry)
        self.known = join(self.known, entry.known)
        self.elapsed_ns = max(self.elapsed_ns, entry.elapsed_ns)

    def see(self, moment: Moment) -> None:
        """Take note of the clocks."""
        if self.seen.wall_ns > self.wall_seen_ns:
            self.wall_seen_ns = self.seen.wall_ns
        self.seen = moment
        passed_ns = elapsed_ns(self.entry, moment)
        if passed_ns > self.elapsed_ns:
            self.elapsed_ns = passed_ns

    def slept(self, wait_s: float) -> None:
        """Take note of a wait: it took its time, whatever the clocks show."""
        self.elapsed_ns += int(wait_s * NS_PER_S)

    def expect(self, support: Support | None) -> None:
        """Take note of what the server has said about keys."""
        self.support = support
        if support is None:
            return
        entry, terms = self.entry, self.terms
        retention_s = retention_after(terms.learning, entry.retention_s, support)
        if retention_s != entry.retention_s:
            deadline_ns = deadline_after(terms.profile, retention_s, entry.first_attempt_at_ns)
            self.entry = replace(entry, retention_s=retention_s, send_deadline_ns=deadline_ns)

    def learn(self, finding: Finding) -> bool:
        """Join what an attempt has taught; return whether the operation is done with it."""
        self.finding = finding
        if finding.outcome > self.known:
            self.known = finding.outcome
        final = self.known is _DEFINITIVE or executed_nothing(self.known)
        return finding.settles and final

    @property
    def now_ns(self) -> int:
        """The moment that the elapsed time leads to: what deadlines are compared with."""
        return self.entry.first_attempt_at_ns + self.elapsed_ns

    @property
    def deadline_passed(self) -> bool:
        """Whether no attempt may start any more, ever."""
        return self.now_ns >= self.entry.send_deadline_ns

    @property
    def behind_s(self) -> float | None:
        """The seconds by which the wall clock went back; None if it did not."""
        seen_ns = self.entry.last_seen_at_ns
        return behind_s(seen_ns if seen_ns > self.wall_seen_ns else self.wall_seen_ns, self.seen)

    @property
    def unproven(self) -> bool:
        """Whether sending again might execute again: the server never said that it knows keys."""
        required = self.terms.requires and self.entry.retention_s <= 0
        return required and not executed_nothing(self.known)

    @property
    def budget_left_s(self) -> float:
        """Seconds that this call may still take."""
        return self.terms.policy.budget_s - (self.elapsed_ns - self.began_ns) / NS_PER_S

    def fits(self, wait_s: float) -> bool:
        """Return whether an attempt may start after such a wait."""
        at_ns = self.now_ns + int(wait_s * NS_PER_S)
        return at_ns < self.entry.send_deadline_ns and wait_s < self.budget_left_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first attempt, over all calls and restarts."""
        return self.elapsed_ns / NS_PER_S

    def facts(self) -> EventFacts:
        """Return what every event tells."""
        entry = self.entry
        return {
            "at_ns": self.seen.wall_ns,
            "provider": self.terms.profile.name,
            "namespace": entry.namespace,
            "operation_id": entry.operation_id,
            "method": entry.method,
            "origin": entry.origin,
            "attempt": entry.attempts,
            "elapsed_s": self.elapsed_s,
            "retention_s": entry.retention_s if entry.retention_s > 0 else None,
            "outcome": self.known,
            "resumed": self.resumed,
        }

    def stopped(
        self,
        detail: str | None = None,
        *,
        handed_over: bool = False,
        cause: Exception | None = None,
    ) -> Verdict:
        """Return the verdict of a call that makes no further attempt, before the send deadline."""
        answered = self.finding is not None and self.finding.status is not None
        if answered and (handed_over or executed_nothing(self.known)):
            ending = _RETURNED
        elif self.finding is not None and executed_nothing(self.known):
            ending = Ending.NOT_EXECUTED
        else:
            ending = Ending.PENDING
        return self.verdict(ending, detail, cause)

    def latched(self) -> Verdict:
        """Return the verdict of a call that finds the operation closed for good."""
        unknown = self.entry.state in (OperationState.OPEN, OperationState.UNKNOWN_FINAL)
        return self.verdict(Ending.UNKNOWN if unknown else Ending.CLOSED)

    def verdict(
        self, ending: Ending, detail: str | None = None, cause: Exception | None = None
    ) -> Verdict:
        """Return a verdict with what is known now."""
        evidence = self.finding.evidence if self.finding else self.entry.last_evidence
        return _new_verdict(
            ending=ending,
            entry=self.entry,
            seen_ns=self.seen.wall_ns,
            elapsed_s=self.elapsed_ns / NS_PER_S,
            outcome=self.known,
            resumed=self.resumed,
            replayed=self.finding is not None and self.finding.replayed,
            detail=detail or evidence or "no attempt has ended",
            cause=cause,
            burnt=ending is _UNKNOWN and not self.deadline_passed,
        )
