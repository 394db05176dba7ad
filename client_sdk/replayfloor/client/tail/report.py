"""The report as values: per provider the tail, the retention, and what is at risk. Pure.

How it is shown is in `text`, `machine` and `page`; what is too much for a check is in `check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from replayfloor.client.tail.measure import Bound, Tail
from replayfloor.client.tail.sightings import Operation

N = TypeVar("N", int, float)

NS_PER_S: Final = 1_000_000_000

SHARE_DEFAULT: Final = 0.5
"""Of the retention. Past half of it, one more outage as long as the longest so far is too much."""

LISTED_DEFAULT: Final = 20
"""Operations at risk that are listed one by one, per group."""


class By(StrEnum):
    """What a group is."""

    PROVIDER = "provider"
    NAMESPACE = "namespace"


class Danger(StrEnum):
    """Why an operation is at risk."""

    OLD = "old"
    """Open past the share of the retention; it may still be sent with its key."""
    LATE = "late"
    """Open at or past its send deadline: nothing may be sent any more."""
    UNKNOWN = "unknown"
    """Closed without an answer; it may have been executed."""
    NOT_EXECUTED = "not_executed"
    """Closed without an answer, and certainly not executed."""


_RECONCILE: Final = (
    "never send it again, neither with its key nor with a new one: ask the provider what became "
    "of it, then note that with `replayfloor client close`"
)

ADVICE: Final = {
    Danger.OLD: "call again with the same operation id, or use `replayfloor client resume`, before "
    "the send deadline",
    Danger.LATE: _RECONCILE,
    Danger.UNKNOWN: _RECONCILE,
    Danger.NOT_EXECUTED: "nothing was executed: note that with `replayfloor client close`, and "
    "begin a new operation if it is still wanted",
}
"""What to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a report goes by.

    `at_ns` is now. `share` of the retention is where an open operation begins to be at risk.
    `since_ns`: what ended, and was last heard of before it, is left out.
    """

    at_ns: int
    share: float = SHARE_DEFAULT
    listed: int = LISTED_DEFAULT
    by: By = By.PROVIDER
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What was read in a source: entries of a journal, or lines, of which `skipped` were no event.

    `torn`: the last line was one of them.
    """

    name: str
    is_journal: bool
    count: int
    skipped: int = 0
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Risk:
    """Operations that somebody has to look at: how many, and the oldest of them, oldest first."""

    danger: Danger
    count: int
    oldest: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The ages in ns of the operations of one standing, the youngest first."""

    ages_ns: Sequence[int] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ages_ns)

    @property
    def oldest_ns(self) -> int:
        """The age of the oldest; 0 if there is none."""
        return self.ages_ns[-1] if self.ages_ns else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One provider, or one namespace of it.

    `resent`: operations with more than one attempt. `refused`: those without an answer of which
    nothing was executed. `retention_s` is the smallest that was seen, `retention_max_s` the
    largest; None if none is known. `window_ns` is the shortest time until a send deadline.
    `risks` has one for each danger that there is.
    """

    provider: str
    namespace: str | None
    operations: int
    resent: int
    refused: int
    attempts: int
    tail: Tail
    open: Waiting
    unknown: Waiting
    retention_s: float | None
    retention_max_s: float | None
    window_ns: int | None
    risks: tuple[Risk, ...]

    @property
    def name(self) -> str:
        """What to call it."""
        named = self.namespace is None or self.namespace == self.provider
        return self.provider if named else f"{self.provider} / {self.namespace}"

    @property
    def retention_ns(self) -> int | None:
        """The smallest retention, in ns."""
        return None if self.retention_s is None else int(self.retention_s * NS_PER_S)

    def share_of(self, bound: Bound | None) -> float | None:
        """Return the share of the retention that a time takes; None if it is not known.

        The smallest retention counts: the next slow operation may be one that has it.
        """
        if bound is None or self.retention_s is None:
            return None
        return bound.ns / NS_PER_S / self.retention_s


@dataclass(frozen=True, slots=True)
class Report:
    """What is shown."""

    terms: Terms
    found: tuple[Found, ...]
    groups: tuple[Group, ...]
