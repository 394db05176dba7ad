"""What one source tells of one operation, and what all of them together say. Pure.

Sources overlap: a journal and the JSON lines of the same process, a file and its copy. So a
sighting is a set of bounds, and putting two of the same operation together takes the greater of
each (or the smaller; `sql/merge_sighting.sql` says which): neither the order nor a repetition
changes the result, and no operation is counted twice. How a line becomes a sighting is in `lines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, assert_never

from replayfloor.core.journal import JournalEntry, OperationState
from replayfloor.core.outcome import Outcome, executed_nothing


class Word(IntEnum):
    """The last word that a source has on an operation; the greater one counts."""

    NONE = 0
    UNKNOWN = 1
    """Closed without an answer: nothing is sent again, and nobody has found out yet."""
    ENDED = 2
    """Answered, or settled by somebody who found out."""


class Sighting(NamedTuple):
    """What a source tells of an operation. A tuple, because millions are bound to a statement.

    Moments are ns since 1970 (UTC). `sent_ns` is the ns since the first attempt at the last one
    that is known to have begun or left, `elapsed_ns` the longest time since then that was ever
    written down. `begun_at_ns` is when an attempt last began, `rested_at_ns` when it was last
    certain that none is under way. `retention_s` and `send_deadline_ns` are None if not known.
    """

    namespace: str
    operation_id: str
    provider: str
    seen_at_ns: int
    first_attempt_at_ns: int
    sent_ns: int
    elapsed_ns: int
    attempts: int
    outcome: int
    word: int
    begun_at_ns: int
    rested_at_ns: int
    retention_s: float | None
    send_deadline_ns: int | None


class Standing(StrEnum):
    """How an operation stands, by everything that was read."""

    ENDED = "ended"
    """Its outcome is known."""
    REFUSED = "refused"
    """Not answered, but certainly nothing was executed, and nobody is sending it now."""
    OPEN = "open"
    """It may be sent again until its send deadline, and perhaps was executed."""
    UNKNOWN = "unknown"
    """Closed without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, by everything that was read. Times as in Sighting.

    `age_ns` is the time since the first attempt until now, `elapsed_ns` until it was last heard of.
    `window_ns` is the time after the first attempt within which attempts may start: until the send
    deadline, or the whole retention if only that is known.
    """

    provider: str
    namespace: str
    operation_id: str
    standing: Standing
    outcome: Outcome
    attempts: int
    seen_at_ns: int
    sent_ns: int
    elapsed_ns: int
    age_ns: int
    retention_s: float | None
    send_deadline_ns: int | None
    window_ns: int | None

    @property
    def censored(self) -> bool:
        """Whether its tail is not known: no answer ended it."""
        return self.standing in (Standing.OPEN, Standing.UNKNOWN)

    @property
    def tail_ns(self) -> int:
        """The ns since the first attempt at the last send; a lower bound if censored.

        An open operation counts with its age, because the attempt that ends it is still to come.
        No attempt leaves at or after the send deadline, so it counts with no more than that. One
        that was closed without an answer counts likewise: the deadline ended it, not its need.
        """
        if not self.censored:
            return self.sent_ns
        reached_ns = self.age_ns if self.standing is Standing.OPEN else self.elapsed_ns
        if self.window_ns is not None:
            reached_ns = min(reached_ns, self.window_ns)
        return max(self.sent_ns, reached_ns)


def of_entry(entry: JournalEntry, at_ns: int) -> Sighting:
    """Return what an entry of a journal tells, as of the moment `at_ns`."""
    known = entry.retention_s > 0
    return Sighting(
        namespace=entry.namespace,
        operation_id=entry.operation_id,
        provider=entry.provider,
        seen_at_ns=entry.last_seen_at_ns,
        first_attempt_at_ns=entry.first_attempt_at_ns,
        sent_ns=_sent_ns(entry),
        elapsed_ns=entry.elapsed_ns,
        attempts=entry.attempts,
        # An attempt whose end is not recorded may have been executed.
        outcome=int(entry.known),
        word=int(_word_of(entry.state)),
        begun_at_ns=entry.last_attempt_at_ns,
        # Whoever holds the lease may send at any moment.
        rested_at_ns=0 if entry.lease_until_ns > at_ns else entry.last_seen_at_ns,
        retention_s=entry.retention_s if known else None,
        # Without a retention the deadline is one that stands for none.
        send_deadline_ns=entry.send_deadline_ns if known else None,
    )


def _sent_ns(entry: JournalEntry) -> int:
    """Return the ns since the first attempt at the last one.

    A wall clock that was set back shows too few; the elapsed time does not, and what passed since
    the last attempt is to be taken from it.
    """
    by_wall_ns = entry.last_attempt_at_ns - entry.first_attempt_at_ns
    since_ns = entry.last_seen_at_ns - entry.last_attempt_at_ns
    return max(by_wall_ns, entry.elapsed_ns - since_ns, 0)


def _word_of(state: OperationState) -> Word:
    match state:
        case OperationState.OPEN:
            return Word.NONE
        case OperationState.UNKNOWN_FINAL:
            return Word.UNKNOWN
        case OperationState.DONE | OperationState.SETTLED:
            return Word.ENDED
        case _:
            assert_never(state)


def standing(seen: Sighting) -> Standing:
    """Return how an operation stands."""
    outcome = Outcome(seen.outcome)
    if seen.word >= Word.ENDED or outcome is Outcome.DEFINITIVE:
        return Standing.ENDED
    if seen.word >= Word.UNKNOWN:
        return Standing.UNKNOWN
    if executed_nothing(outcome) and seen.rested_at_ns >= seen.begun_at_ns:
        return Standing.REFUSED
    return Standing.OPEN


def operation(seen: Sighting, at_ns: int) -> Operation:
    """Return the operation that all sightings of it, put together, describe at `at_ns`."""
    elapsed_ns = max(seen.elapsed_ns, seen.sent_ns)
    return Operation(
        provider=seen.provider or seen.namespace,
        namespace=seen.namespace,
        operation_id=seen.operation_id,
        standing=standing(seen),
        outcome=Outcome(seen.outcome),
        attempts=seen.attempts,
        seen_at_ns=seen.seen_at_ns,
        sent_ns=seen.sent_ns,
        elapsed_ns=elapsed_ns,
        # A clock that was set back makes nothing younger.
        age_ns=max(at_ns - seen.first_attempt_at_ns, elapsed_ns),
        retention_s=seen.retention_s,
        send_deadline_ns=seen.send_deadline_ns,
        window_ns=_window_ns(seen),
    )


def _window_ns(seen: Sighting) -> int | None:
    if seen.send_deadline_ns is not None:
        return max(0, seen.send_deadline_ns - seen.first_attempt_at_ns)
    return None if seen.retention_s is None else int(seen.retention_s * 1_000_000_000)
