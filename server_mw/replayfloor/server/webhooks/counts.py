"""Counts what is delivered by source: first deliveries and duplicates; and notices if none is one.

Only memory, of this process. Who is told of it, and how, is not here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, assert_never
from weakref import WeakSet

from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.webhooks.counts_outcome import DeliveryOutcome, outcome_of, problem_of

UNRECOGNISED_MIN: Final = 20
"""Retries taken for first deliveries before that is told. A restart of the application, or a proxy
that answers for it, loses a few attempts, and the next ones come as first; twenty without one
duplicate among them are more than that, and a busy sender has them within a day."""

AGAIN_AFTER: Final = 10 * UNRECOGNISED_MIN
"""Further such retries before it is told again: often enough to be seen in the log of any day, and
not one line in it for every delivery."""

SOURCES_MAX: Final = 256
"""Sources that are counted each by itself. Who names them in its routes has a few; a name that was
made of a request's content must not fill the memory, nor a metrics backend."""

OTHER_SOURCES: Final = "(others)"
"""Stands for all sources after SOURCES_MAX; it is no name that a WebhookSource may have."""

UNRECOGNISED_TEXT: Final = (
    "{source}: {count} or more deliveries that are repetitions, as the sender says, were each taken"
    " for a first one. Either keys expire before the sender stops (compare the retention with its"
    " horizon: replayfloor policy check), or the event id is another one in each attempt (look at"
    " two attempts of one event), or the earlier attempts never got as far as here (the network, a"
    " proxy, a refused signature)"
)
"""What is told then; a cause, and where to look, for each."""


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What one source has delivered to this process since it began.

    Attributes:
        source: its name, or OTHER_SOURCES.
        first: handed to the application, takeovers of a dead execution included.
        duplicates: answered with what was stored.
        in_flight: refused because another delivery of the same event was at work.
        failed: of `first`, those whose key was freed, because the application failed.
        past_horizon: acknowledged without the application.
        refused: every other refusal, by the value of its ProblemKind.
        retried_first, retried_duplicates: of `first` and `duplicates`, those of which the sender
            says that it had sent them before.
    """

    source: str
    first: int = 0
    duplicates: int = 0
    in_flight: int = 0
    failed: int = 0
    past_horizon: int = 0
    refused: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    retried_first: int = 0
    retried_duplicates: int = 0

    @property
    def hit_rate(self) -> float | None:
        """The share of duplicates among what was answered for; None if there was nothing."""
        answered = self.first + self.duplicates
        return self.duplicates / answered if answered else None


class DeliveryCounts:
    """Counts the deliveries of every source. Any thread may use it; a forked child begins anew."""

    def __init__(self) -> None:
        """Count from nothing."""
        self._begin_anew()
        _EVERY.add(self)

    def note(self, event: ServerEvent) -> ServerEvent | None:
        """Count an event that has a source; any other is ignored.

        Returns what is to be told besides, or None: that UNRECOGNISED_MIN retries of this source
        were taken for first deliveries without one duplicate among them, though nothing that went
        wrong here explains them. Once until there is a duplicate, or AGAIN_AFTER more such retries.
        """
        if not event.source:
            return None
        outcome = outcome_of(event)
        if outcome is None:
            return None
        with self._one_at_a_time:
            tally = self._tally(event.source)
            tally.count(outcome, event)
            due = tally.watch(outcome, event)
        # Retries of many sources under one name are no streak of anybody's.
        return _unrecognised(event) if due and tally.source != OTHER_SOURCES else None

    def report(self) -> tuple[SourceCounts, ...]:
        """Return the counts of every source that has delivered, by name."""
        with self._one_at_a_time:
            return tuple(self._tallies[name].frozen() for name in sorted(self._tallies))

    def _tally(self, source: str) -> _Tally:
        found = self._tallies.get(source)
        if found is None:
            name = source if len(self._tallies) < SOURCES_MAX else OTHER_SOURCES
            found = self._tallies.setdefault(name, _Tally(name))
        return found

    def _begin_anew(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._tallies: dict[str, _Tally] = {}

    @staticmethod
    def begin_anew_after_a_fork() -> None:
        """Forget what the parent has counted, or a sum over processes has it twice; and its lock,
        which may have been copied while another thread of the parent had it."""
        for counts in _EVERY:
            counts._begin_anew()


_EVERY: Final[WeakSet[DeliveryCounts]] = WeakSet()
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=DeliveryCounts.begin_anew_after_a_fork)


def _unrecognised(event: ServerEvent) -> ServerEvent:
    """Return what is told; the receipt id is that of the last of them."""
    text = UNRECOGNISED_TEXT.format(source=event.source, count=UNRECOGNISED_MIN)
    return replace(event, kind=EventKind.RETRIES_UNRECOGNISED, detail=text)


# -- one source -----------------------------------------------------------------------------------


class _Tally:
    """The counts of one source, and the streak of its retries that were not recognised.

    Nothing is kept of a single event, so that explanations are only counted: a key that was freed
    is delivered again later, and any retry may be that one. This holds with several processes too,
    of which one frees and another one gets the retry: each of them frees about as many as it gets.

    `failed` and `busy` are explanations that no retry has used up yet. What was told to come back
    because another delivery was at work usually comes back as a duplicate, and uses up one of those
    then; what failed here comes back as a first delivery only.
    """

    __slots__ = ("_busy", "_counts", "_failed", "_refused", "_retried", "_streak", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._counts = dict.fromkeys(DeliveryOutcome, 0)
        self._retried = dict.fromkeys(DeliveryOutcome, 0)
        self._refused: dict[str, int] = {}
        self._failed = self._busy = self._streak = 0

    def count(self, outcome: DeliveryOutcome, event: ServerEvent) -> None:
        """Count a delivery."""
        self._counts[outcome] += 1
        if event.retried is True:
            self._retried[outcome] += 1
        if outcome is DeliveryOutcome.REFUSED:
            kind = problem_of(event)
            self._refused[kind] = self._refused.get(kind, 0) + 1

    def watch(self, outcome: DeliveryOutcome, event: ServerEvent) -> bool:
        """See whether repetitions are recognised; say whether it has to be told that none is."""
        match outcome:
            case DeliveryOutcome.FIRST if event.kind is EventKind.CLAIMED:
                return event.retried is True and self._is_one_too_many()
            case DeliveryOutcome.FIRST if event.kind is EventKind.EXECUTED_OPENLY:
                self._failed += 1  # it left nothing by which a repetition could be recognised
            case DeliveryOutcome.FIRST | DeliveryOutcome.PAST_HORIZON:
                pass  # what was taken over was recognised by its claim, but that is not its receipt
            case DeliveryOutcome.DUPLICATE:
                self._streak = 0
                self._busy = max(0, self._busy - 1)
            case DeliveryOutcome.FAILED:
                self._failed += 1
            case DeliveryOutcome.IN_FLIGHT:
                self._busy += 1
            case DeliveryOutcome.REFUSED if event.detail == ProblemKind.STORE_UNAVAILABLE:
                self._failed += 1
            case DeliveryOutcome.REFUSED if event.detail == ProblemKind.OUTCOME_UNKNOWN:
                self._busy += 1
            case DeliveryOutcome.REFUSED:
                # Some come before the signature was verified: a stranger must not explain anything.
                pass
            case _:
                assert_never(outcome)
        return False

    def _is_one_too_many(self) -> bool:
        if self._failed:
            self._failed -= 1
        elif self._busy:
            self._busy -= 1
        else:
            self._streak += 1
            beyond = self._streak - UNRECOGNISED_MIN
            return beyond >= 0 and beyond % AGAIN_AFTER == 0
        return False

    def frozen(self) -> SourceCounts:
        """Return the counts as they are now."""
        counts, retried = self._counts, self._retried
        return SourceCounts(
            self.source,
            first=counts[DeliveryOutcome.FIRST],
            duplicates=counts[DeliveryOutcome.DUPLICATE],
            in_flight=counts[DeliveryOutcome.IN_FLIGHT],
            failed=counts[DeliveryOutcome.FAILED],
            past_horizon=counts[DeliveryOutcome.PAST_HORIZON],
            refused=MappingProxyType(dict(self._refused)),
            retried_first=retried[DeliveryOutcome.FIRST],
            retried_duplicates=retried[DeliveryOutcome.DUPLICATE],
        )
