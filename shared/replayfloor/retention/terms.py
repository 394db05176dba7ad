"""What a policy is made of: figures with their unit and with where they come from. Data only.

A term that nobody publishes is *unknown*. That is a value like any other: it is never replaced by
a guess, and no floor is derived from it until somebody chooses a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from replayfloor.retention.durations import exact_us, in_words, parse_duration, seconds
from replayfloor.retention.errors import PolicyError

UNKNOWN: Final = "unknown"
"""As the length of a term: no source states it."""

REVIEW_AFTER_DAYS: Final = 365
"""A figure that was read longer ago is to be read again: providers do change their pages."""


class Confidence(StrEnum):
    """How much a figure is worth."""

    DOCUMENTED = "documented"
    """The other side publishes it."""
    OFFICIAL_SDK = "official SDK"
    """Read from the code that the other side gives out."""
    WORKED_EXAMPLE = "worked example"
    """Computed from an example in the other side's documents, such as a schedule."""
    MEASURED = "measured"
    """Read from the running system itself."""
    THIRD_PARTY = "third-party"
    """Somebody else says so."""
    PRESUMED = "presumed"
    """We suppose so, for the reason in the note."""
    GIVEN = "given"
    """The user's own figure."""
    NOT_FOUND = "not found"
    """Looked for, and stated nowhere."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a figure comes from.

    `source` is an address, a document or a place in a file. `read_on` is the day on which it was
    read, or None: then a figure of somebody else counts as old. `note` says what it says.
    """

    source: str
    read_on: date | None = None
    confidence: Confidence = Confidence.GIVEN
    note: str = ""

    def __str__(self) -> str:
        """Return the source with its day and its worth, on one line."""
        day = f", read {self.read_on.isoformat()}" if self.read_on else ""
        if not day and self.confidence not in (Confidence.GIVEN, Confidence.NOT_FOUND):
            day = ", read on a day that is not known"
        note = f": {self.note}" if self.note else ""
        return f"{self.source}{day} ({self.confidence.value}){note}"

    def is_older_than(self, days: int, today: date) -> bool:
        """Return whether the figure has to be read again.

        A figure of one's own has no page to read again, unless it says when that was done.
        """
        if self.read_on is None:
            return self.confidence is not Confidence.GIVEN
        return today - self.read_on > timedelta(days=days)


IN_CODE: Final = Provenance("set in code")


class TermKind(StrEnum):
    """What a figure is. The value is its name in a file."""

    CLIENT_RETRY_BUDGET = "client_retry_budget"
    """How long after its first attempt a client of ours repeats a request."""
    BROKER_REDELIVERY = "broker_redelivery"
    """How long after its first delivery a broker delivers a message again."""
    AUTOMATIC_RETRY = "automatic_retry"
    """How long after its first attempt a sender repeats a delivery by itself."""
    MANUAL_RESEND = "manual_resend"
    """How long after its first attempt a person can have a sender deliver again."""
    RECONCILIATION_CADENCE = "reconciliation_cadence"
    """The time from one reconciliation to the next, which may find and repeat an operation."""
    PLANNED_OUTAGE = "planned_outage"
    """The longest time for which we plan to be away: retries wait for that long."""
    SAFETY_MARGIN = "safety_margin"
    """Difference of clocks, queues that lag, replay by hand; outbound: also the way there."""
    RETENTION = "retention"
    """How long receipts are kept, if that is longer than the floor."""
    KEY_RETENTION = "key_retention"
    """How long a provider remembers a key of ours."""
    RETRY_BUDGET = "retry_budget"
    """How long one call of our client goes on, over all of its attempts."""
    JOB_QUEUE_DELAY = "job_queue_delay"
    """The longest time until a job that failed is tried again."""
    MANUAL_RERUN = "manual_rerun"
    """The longest time until a person runs something again by hand."""

    @property
    def words(self) -> str:
        """The name, for people."""
        return self.value.replace("_", " ")


MUST_BE_MORE_THAN_ZERO: Final[Mapping[TermKind, str]] = {
    TermKind.RECONCILIATION_CADENCE: "leave it out if nothing is reconciled",
    TermKind.RETENTION: "leave it out, and receipts are kept for exactly the floor",
    TermKind.KEY_RETENTION: "a provider that keeps no key cannot be asked twice: do not retry",
    TermKind.RETRY_BUDGET: "state how long one call of the client may go on",
}
"""Terms for which zero means nothing, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Term:
    """One figure: what it is, its length in seconds (None: unknown) and where it comes from.

    The length is rounded to the microsecond. Raises PolicyError for a length that is negative,
    zero where that means nothing, or longer than ten years.
    """

    name: TermKind
    seconds: float | None
    provenance: Provenance = IN_CODE

    def __post_init__(self) -> None:
        """Refuse what is no such length."""
        if self.seconds is None:
            return
        us = exact_us(self.seconds, self.name.value)
        if us == 0 and self.name in MUST_BE_MORE_THAN_ZERO:
            raise PolicyError(
                f"{self.name.value} is zero", advice=MUST_BE_MORE_THAN_ZERO[self.name]
            )
        object.__setattr__(self, "seconds", seconds(us))

    @property
    def us(self) -> int | None:
        """The length in microseconds; None if it is unknown."""
        return None if self.seconds is None else exact_us(self.seconds)

    def __str__(self) -> str:
        """Return its length as text."""
        return UNKNOWN if self.seconds is None else in_words(self.seconds)


Length: TypeAlias = Term | timedelta | float | str
"""What a length may be given as: a term, a timedelta, seconds, or a text ("84h", "unknown")."""


def as_term(kind: TermKind, given: Length, provenance: Provenance = IN_CODE) -> Term:
    """Return a length as a term of a kind; raises PolicyError."""
    match given:
        case Term():
            if given.name is not kind:
                raise PolicyError(
                    f"{kind.value} was given a {given.name.value}",
                    advice=f"make it a Term(TermKind.{kind.name}, …)",
                )
            return given
        case str():
            return Term(kind, None if given == UNKNOWN else parse_duration(given), provenance)
        case timedelta():
            return Term(kind, seconds(exact_us(given, kind.value)), provenance)
        case _:
            return Term(kind, given, provenance)


def as_optional_term(kind: TermKind, given: Length | None) -> Term | None:
    """Return a length as a term of a kind; None stays None. Raises PolicyError."""
    return None if given is None else as_term(kind, given)
