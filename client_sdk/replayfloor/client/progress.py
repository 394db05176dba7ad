"""What one call of the flow knows while it goes on: its clock, its knowledge, its verdict.

Everything here is arithmetic on what the flow was told; nothing is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from replayfloor.client.classify import Finding
from replayfloor.client.events import Ending
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import NS_PER_S, Profile
from replayfloor.core.journal import JournalEntry
from replayfloor.core.outcome import Outcome, executed_nothing, join


class EventFacts(TypedDict):
    """The fields that every event has."""

    provider: str
    operation_id: str
    attempt: int
    elapsed_s: float
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a call ends. `entry` is the journal's, `detail` says more, `cause` is what went wrong."""

    ending: Ending
    entry: JournalEntry
    elapsed_s: float
    outcome: Outcome
    resumed: bool
    replayed: bool
    detail: str
    cause: Exception | None = None


@dataclass(slots=True)
class Progress:
    """One call. `counted`: the journal counts the next attempt already."""

    profile: Profile
    policy: RetryPolicy
    entry: JournalEntry
    now_ns: int
    began_ns: int = 0
    resumed: bool = False
    counted: bool = True
    known: Outcome = Outcome.NOT_SENT
    finding: Finding | None = None
    draw: float = 0.0

    def __post_init__(self) -> None:
        """The call begins now."""
        self.began_ns = self.now_ns

    def adopt(self, standing: JournalEntry) -> None:
        """Continue an operation that the journal knows."""
        self.entry = standing
        self.see(self.now_ns)
        self.began_ns = self.now_ns
        self.resumed, self.counted = True, False
        self.known = standing.known

    def see(self, now_ns: int) -> None:
        """Take note of the clock. It was set back if it shows less than was seen before."""
        self.now_ns = max(self.now_ns, now_ns, self.entry.last_seen_at_ns)

    def slept(self, wait_s: float) -> None:
        """Take note of a wait: it took its time, whatever the clock shows."""
        self.now_ns += int(wait_s * NS_PER_S)

    def learn(self, finding: Finding) -> bool:
        """Join what an attempt has taught; return whether the operation is done with it."""
        self.finding = finding
        self.known = join(self.known, finding.outcome)
        final = self.known is Outcome.DEFINITIVE or executed_nothing(self.known)
        return finding.settles and final

    @property
    def deadline_passed(self) -> bool:
        """Whether no attempt may start any more, ever."""
        return self.now_ns >= self.entry.send_deadline_ns

    @property
    def budget_left_s(self) -> float:
        """Seconds that this call may still take."""
        return self.policy.budget_s - (self.now_ns - self.began_ns) / NS_PER_S

    def fits(self, wait_s: float) -> bool:
        """Return whether an attempt may start after such a wait."""
        at_ns = self.now_ns + int(wait_s * NS_PER_S)
        return at_ns < self.entry.send_deadline_ns and wait_s < self.budget_left_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first attempt, over all calls and restarts."""
        return max(0, self.now_ns - self.entry.first_attempt_at_ns) / NS_PER_S

    def facts(self) -> EventFacts:
        """Return what every event tells."""
        return {
            "provider": self.profile.name,
            "operation_id": self.entry.operation_id,
            "attempt": self.entry.attempts,
            "elapsed_s": self.elapsed_s,
            "outcome": self.known,
        }

    def stopped(self, *, handed_over: bool = False, cause: Exception | None = None) -> Verdict:
        """Return the verdict of a call that makes no further attempt, before the send deadline."""
        assert self.finding is not None  # there was an attempt
        answered = self.finding.status is not None
        if answered and (handed_over or executed_nothing(self.known)):
            ending = Ending.RETURNED
        elif executed_nothing(self.known):
            ending = Ending.NOT_EXECUTED
        else:
            ending = Ending.PENDING
        return self.verdict(ending, cause=cause)

    def verdict(
        self, ending: Ending, detail: str | None = None, cause: Exception | None = None
    ) -> Verdict:
        """Return a verdict with what is known now."""
        evidence = self.finding.evidence if self.finding else self.entry.last_evidence
        return Verdict(
            ending=ending,
            entry=self.entry,
            elapsed_s=self.elapsed_s,
            outcome=self.known,
            resumed=self.resumed,
            replayed=self.finding is not None and self.finding.replayed,
            detail=detail or evidence or "no attempt has ended",
            cause=cause,
        )
