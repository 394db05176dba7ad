"""Visits every state of a small world once, and so every schedule, without running each of them.

Two schedules that lead to the same state have the same future; it is visited once (that covers
all orders of steps that commute). What is known of a state's future, how many schedules it has,
how many of them break a promise, and the shortest of those, is put together from its successors.
States are compared by their whole value, not by a hash of it. A world's states must not repeat
along a schedule: every step uses something up, or goes on in some flow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, cast

from replayfloor.testing.explore import Broken, Violation

STATES_MAX = 1_000_000
"""Above this a world is too large to be visited in a unit test; sample it instead."""


class Course(Protocol):
    """A world under way: what may happen next, and what was promised of its end."""

    def moves(self) -> Sequence[Move]:
        """Return what can happen next, going on first; nothing at the end."""
        ...

    def copy(self) -> Self:
        """Return an equal course that goes on independently of this one."""
        ...

    def key(self) -> tuple[Hashable, ...]:
        """Return all that the future depends on, the promises' own notes included."""
        ...

    def check(self) -> None:
        """Raise Violation if the end breaks a promise. May go on with the course."""
        ...


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that can happen. `act` does it to any course that is equal to the one asked.

    It returns what was answered, for whoever reads the schedule, and may raise Violation.
    """

    label: str
    act: Callable[..., object]


class State:
    """An object whose attributes are values, or lists, dictionaries and sets of values.

    Which of them are containers is the same for all objects of a class, from the beginning.
    """

    def copy(self) -> Self:
        """Return an equal object that changes independently."""
        other = object.__new__(type(self))
        attributes = other.__dict__
        attributes.update(self.__dict__)
        for name in _containers(self):
            attributes[name] = attributes[name].copy()
        return other

    def key(self) -> Hashable:
        """Return the object's value."""
        attributes = self.__dict__.copy()
        for name in _containers(self):
            attributes[name] = _value(attributes[name])
        return (*attributes, *attributes.values())


_CONTAINERS: dict[type[State], tuple[str, ...]] = {}


def _containers(state: State) -> tuple[str, ...]:
    found = _CONTAINERS.get(type(state))
    if found is None:
        named = state.__dict__.items()
        found = tuple(name for name, value in named if isinstance(value, list | dict | set))
        _CONTAINERS[type(state)] = found
    return found


def _value(container: object) -> Hashable:
    if isinstance(container, dict):
        return frozenset(cast("dict[Hashable, Hashable]", container).items())
    if isinstance(container, list):
        return tuple(cast("list[Hashable]", container))
    return frozenset(cast("set[Hashable]", container))


@dataclass(frozen=True, slots=True)
class Visit:
    """What was found: schedules and states in all, broken schedules, and the shortest of these."""

    schedules: int
    states: int
    broken: int
    shortest: Broken | None


@dataclass(frozen=True, slots=True)
class _Future:
    """Of one state: its schedules, how many break a promise, and the shortest way to do so."""

    schedules: int
    broken: int
    shortest: tuple[int, ...] | None


def visit(begin: Callable[[], Course], *, states_max: int = STATES_MAX) -> Visit:
    """Visit every schedule of the course that `begin` returns.

    Raises OverflowError if there are more than `states_max` states.
    """
    visitor = _Visitor(states_max)
    future = visitor.future(begin())
    shortest = replay(begin, future.shortest) if future.shortest is not None else None
    return Visit(future.schedules, visitor.states, future.broken, shortest)


class _Visitor:
    def __init__(self, states_max: int) -> None:
        self._states_max = states_max
        self._known: dict[tuple[int, ...], _Future] = {}
        self._numbers: dict[Hashable, int] = {}

    @property
    def states(self) -> int:
        return len(self._known)

    def future(self, course: Course) -> _Future:
        """Return what is to come; the course itself may be used up."""
        # The parts of a state recur in many states, so they are kept once and numbered.
        numbers = self._numbers
        key = tuple([numbers.setdefault(part, len(numbers)) for part in course.key()])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._states_max:
                raise OverflowError(f"more than {self._states_max} states")
            known = self._known[key] = self._visit(course)
        return known

    def _visit(self, course: Course) -> _Future:
        moves = course.moves()
        if not moves:
            try:
                course.check()
            except Violation:
                return _BROKEN
            return _KEPT
        schedules = broken = 0
        shortest: tuple[int, ...] | None = None
        for index, move in enumerate(moves):
            after = course.copy()
            try:
                move.act(after)
            except Violation:
                future = _BROKEN
            else:
                future = self.future(after)
            schedules += future.schedules
            broken += future.broken
            rest = future.shortest
            if rest is not None and (shortest is None or len(rest) + 1 < len(shortest)):
                shortest = (index, *rest)
        return _Future(schedules, broken, shortest)


_KEPT = _Future(1, 0, None)
_BROKEN = _Future(1, 1, ())


def replay(begin: Callable[[], Course], path: Iterable[int]) -> Broken | None:
    """Go along a path: at each step the number of the move. Return what it breaks, or None.

    After the path's end the first move is taken. A number that is too large counts from the
    beginning again, so that any numbers are a path.
    """
    course, numbers = begin(), iter(path)
    taken: list[int] = []
    steps: list[str] = []
    try:
        while moves := course.moves():
            index = next(numbers, 0) % len(moves)
            taken.append(index)
            steps.append(moves[index].label)
            answer = moves[index].act(course)
            if answer is not None:
                steps[-1] += f" -> {answer}"
        course.check()
    except Violation as violation:
        return Broken(str(violation), tuple(steps), tuple(taken))
    return None


def shorten(begin: Callable[[], Course], broken: Broken) -> Broken:
    """Return a schedule that breaks the same promise and from which no single step can be left out.

    For what was found by sampling; `visit` finds the shortest schedule of all by itself.
    """
    best, at = broken, 0
    while at < len(best.path):
        shorter = replay(begin, best.path[:at] + best.path[at + 1 :])
        if shorter is not None and _is_better(shorter, best):
            best, at = shorter, 0
        else:
            at += 1
    return best


def _is_better(one: Broken, other: Broken) -> bool:
    same = one.promise == other.promise
    return same and (len(one.path), sum(one.path)) < (len(other.path), sum(other.path))
