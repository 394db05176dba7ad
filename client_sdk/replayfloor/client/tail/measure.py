"""Percentiles and survival of times of which some are known only by a lower bound. Pure arithmetic.

What is open is *censored*: its time will be at least what it is now. Leaving it out would show the
tail of those that went well. The Kaplan-Meier estimate would take it to be like the others, and it
is not: an operation is open because its attempts fail. So nothing is assumed of it. Every figure is
what holds whatever becomes of the open ones: the percentile with each of them at its lower bound is
a lower bound of the true one, since making a value greater makes no percentile smaller; and where
the percentile is the same if they never end, it is exact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PERCENT_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """A time in ns; `at_least`: it may be longer, depending on what is still open."""

    ns: int
    at_least: bool


class Tail:
    """Times in ns, each either known or known by its lower bound (censored)."""

    def __init__(self, known: Iterable[int], censored: Iterable[int] = ()) -> None:
        """Take the times, in any order."""
        # Arrays: eight bytes a time, where a list takes five times as much.
        self.known: Final[Sequence[int]] = array("q", sorted(known))
        self.censored: Final[Sequence[int]] = array("q", sorted(censored))
        self._all: Final[Sequence[int]] = array("q", sorted([*self.known, *self.censored]))

    def __len__(self) -> int:
        """Return how many times there are."""
        return len(self._all)

    def percentile(self, percent: int) -> Bound | None:
        """Return the least time that `percent` % (1 to 100) of all do not exceed; None of none.

        It is one of the times ("nearest rank"), never one between two.
        """
        if not self._all:
            return None
        rank = -(-len(self._all) * percent // PERCENT_MAX)
        at_least_ns = self._all[rank - 1]
        if rank > len(self.known):
            return Bound(at_least_ns, at_least=True)
        return Bound(at_least_ns, at_least=self.known[rank - 1] > at_least_ns)

    @property
    def largest(self) -> Bound | None:
        """The longest time; None of none."""
        return self.percentile(PERCENT_MAX)

    def longer_than(self, ns: int) -> tuple[int, int]:
        """Return how many times are longer: at least, and at most."""
        known = len(self.known) - bisect_right(self.known, ns)
        censored = len(self.censored) - bisect_right(self.censored, ns)
        return known + censored, known + len(self.censored)

    @property
    def steps(self) -> Sequence[int]:
        """Every time at which `longer_than` may change, in ascending order, with repetitions."""
        return self._all
