"""Visits every schedule of a small world, and remembers the shortest one that breaks a promise.

A run asks a Chooser whenever more than one thing could happen next. Generators cannot be copied,
so each schedule is run again from its beginning along a recorded path; the next path differs in
the last choice that has an alternative left (depth first, exhaustive, deterministic).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SCHEDULES_MAX = 500_000
"""Above this a world is too large to be visited in a unit test; sample it instead."""


class Violation(AssertionError):
    """A promise was broken; the message says which."""


class Chooser:
    """Answers "what happens next?" along a given path, and with the first option after its end."""

    def __init__(self, path: Sequence[int] = ()) -> None:
        """Follow `path`, then take option 0."""
        self._path = tuple(path)
        self.taken: list[int] = []
        self.widths: list[int] = []
        self.labels: list[str] = []

    def choose(self, options: Sequence[str]) -> int:
        """Return the index of the option to take; the labels make up the printed schedule."""
        at = len(self.taken)
        index = self._path[at] if at < len(self._path) else 0
        self.taken.append(index)
        self.widths.append(len(options))
        self.labels.append(options[index])
        return index

    def next_path(self) -> tuple[int, ...] | None:
        """Return the path of the next schedule, or None after the last."""
        for at in reversed(range(len(self.taken))):
            if self.taken[at] + 1 < self.widths[at]:
                return (*self.taken[:at], self.taken[at] + 1)
        return None


@dataclass(frozen=True, slots=True)
class Broken:
    """One schedule that broke a promise: what was broken, and the steps that led there.

    `path` leads there again: the number of what was chosen, at each choice.
    """

    promise: str
    schedule: tuple[str, ...]
    path: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the promise, the numbered steps and the path, for a test's message."""
        steps = [f"  {number}. {step}" for number, step in enumerate(self.schedule, 1)]
        return "\n".join([self.promise, *steps, _PATH + ",".join(map(str, self.path))])


_PATH = "  path: "


def read_path(text: str) -> tuple[int, ...]:
    """Return the path of a printed schedule, to go along it again. Raises ValueError."""
    line = text.rpartition(_PATH)[2].strip()
    return tuple(int(number) for number in line.split(",")) if line else ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a visit found: how many schedules there are, how many are broken, the shortest."""

    schedules: int
    broken: int
    shortest: Broken | None


def explore(run: Callable[[Chooser], None], *, schedules_max: int = SCHEDULES_MAX) -> Report:
    """Call `run` once per schedule; it raises Violation when a promise is broken.

    Raises OverflowError if there are more than `schedules_max` schedules.
    """
    path: tuple[int, ...] | None = ()
    schedules = broken = 0
    shortest: Broken | None = None
    while path is not None:
        chooser = Chooser(path)
        schedules += 1
        if schedules > schedules_max:
            raise OverflowError(f"more than {schedules_max} schedules")
        try:
            run(chooser)
        except Violation as violation:
            broken += 1
            found = Broken(str(violation), tuple(chooser.labels), tuple(chooser.taken))
            if shortest is None or len(found.schedule) < len(shortest.schedule):
                shortest = found
        path = chooser.next_path()
    return Report(schedules, broken, shortest)
