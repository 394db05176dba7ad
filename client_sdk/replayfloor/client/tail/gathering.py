"""From operations to the groups of a report: counting, and keeping the oldest at risk. Pure.

Of an operation that has ended one number is kept, of an open one two; only those that are listed
are kept whole.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable
from typing import TypeVar

from replayfloor.client.tail.measure import Tail
from replayfloor.client.tail.report import NS_PER_S, By, Danger, Group, Risk, Terms, Waiting
from replayfloor.client.tail.sightings import Operation, Standing
from replayfloor.core.outcome import executed_nothing

N = TypeVar("N", int, float)


def build(operations: Iterable[Operation], terms: Terms) -> tuple[Group, ...]:
    """Return the groups of some operations, each given once, in the order of their names."""
    gathered: dict[tuple[str, str | None], _Gathering] = {}
    for each in operations:
        if _is_over(each, terms):
            continue
        place = (each.provider, each.namespace if terms.by is By.NAMESPACE else None)
        if place not in gathered:
            gathered[place] = _Gathering(*place, terms)
        gathered[place].add(each)
    return tuple(gathered[place].group() for place in sorted(gathered, key=_by_name))


def _by_name(place: tuple[str, str | None]) -> tuple[str, str]:
    return place[0], place[1] or ""


def _is_over(each: Operation, terms: Terms) -> bool:
    """Return whether an operation ended before what is reported on; what is open did not."""
    return not each.censored and terms.since_ns is not None and each.seen_at_ns < terms.since_ns


def danger_of(each: Operation, share: float) -> Danger | None:
    """Return why an operation is at risk; None if it is not, or nobody can say."""
    if each.standing is Standing.UNKNOWN:
        return Danger.NOT_EXECUTED if executed_nothing(each.outcome) else Danger.UNKNOWN
    if each.standing is not Standing.OPEN or each.retention_s is None or each.window_ns is None:
        return None
    if each.age_ns >= each.window_ns:
        return Danger.LATE
    return Danger.OLD if each.age_ns > share * each.retention_s * NS_PER_S else None


class _Oldest:
    """The oldest of the operations that are added, and how many were added."""

    def __init__(self, listed: int) -> None:
        self._listed = listed
        # The youngest first, so that it is the one to give way. No two have the same name.
        self._heap: list[tuple[int, str, str, Operation]] = []
        self.count = 0

    def add(self, each: Operation) -> None:
        self.count += 1
        heapq.heappush(self._heap, (each.age_ns, each.namespace, each.operation_id, each))
        if len(self._heap) > self._listed:
            heapq.heappop(self._heap)

    def risk(self, danger: Danger) -> Risk:
        oldest = (item[-1] for item in sorted(self._heap, reverse=True))
        return Risk(danger, self.count, tuple(oldest))


class _Gathering:
    """A group while operations are added."""

    def __init__(self, provider: str, namespace: str | None, terms: Terms) -> None:
        self._place = provider, namespace
        self._terms = terms
        self._known: array[int] = array("q")
        self._censored: array[int] = array("q")
        self._resent = self._refused = self._attempts = 0
        self._ages: dict[Standing, array[int]] = {
            Standing.OPEN: array("q"),
            Standing.UNKNOWN: array("q"),
        }
        self._least_s: float | None = None
        self._most_s: float | None = None
        self._window_ns: int | None = None
        self._at_risk: dict[Danger, _Oldest] = {}

    def add(self, each: Operation) -> None:
        (self._censored if each.censored else self._known).append(each.tail_ns)
        self._attempts += each.attempts
        self._resent += each.attempts > 1
        self._refused += each.standing is Standing.REFUSED
        if each.standing in self._ages:
            self._ages[each.standing].append(each.age_ns)
        self._least_s = _of(min, self._least_s, each.retention_s)
        self._most_s = _of(max, self._most_s, each.retention_s)
        if each.send_deadline_ns is not None:
            self._window_ns = _of(min, self._window_ns, each.window_ns)
        danger = danger_of(each, self._terms.share)
        if danger is not None:
            self._at_risk.setdefault(danger, _Oldest(self._terms.listed)).add(each)

    def _waiting(self, standing: Standing) -> Waiting:
        return Waiting(array("q", sorted(self._ages[standing])))

    def group(self) -> Group:
        provider, namespace = self._place
        return Group(
            provider=provider,
            namespace=namespace,
            operations=len(self._known) + len(self._censored),
            resent=self._resent,
            refused=self._refused,
            attempts=self._attempts,
            tail=Tail(self._known, self._censored),
            open=self._waiting(Standing.OPEN),
            unknown=self._waiting(Standing.UNKNOWN),
            retention_s=self._least_s,
            retention_max_s=self._most_s,
            window_ns=self._window_ns,
            risks=tuple(
                self._at_risk[danger].risk(danger) for danger in Danger if danger in self._at_risk
            ),
        )


def _of(choose: Callable[[N, N], N], before: N | None, new: N | None) -> N | None:
    """Return what `choose` takes of two, or the one that there is."""
    if before is None or new is None:
        return new if before is None else before
    return choose(before, new)
