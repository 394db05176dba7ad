"""A flow that can be at many places at once: the tree of what it asks for and is answered.

A generator cannot be copied, but a flow is pure: where it is follows from the answers it was
given. So its places are remembered by those answers, and it is run again only for new ones. A
place is a value: two courses of the world that gave a flow the same answers share its place. What
is asked of the world, and in which order, is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeAlias, TypeVar, cast

from replayfloor.core.effects import Effect, Flow

R = TypeVar("R")

_Move: TypeAlias = tuple[bool, object]
"""What a flow was given: (False, an answer) or (True, an exception)."""


class Place(Generic[R]):
    """A flow at one of its effects, or at its end: `effect` is None then.

    After the end there is a `result`, or the `failure` that it raised.
    """

    __slots__ = ("_after", "_begin", "_live", "_path", "effect", "failure", "result")

    def __init__(self, begin: Callable[[], Flow[R]], path: tuple[_Move, ...]) -> None:
        """For `first` and the places themselves."""
        self._begin, self._path = begin, path
        self._after: dict[Hashable, Place[R]] = {}
        self._live: Flow[R] | None = None
        self.effect: Effect[object] | None = None
        self.result: R | None = None
        self.failure: BaseException | None = None

    def send(self, answer: object) -> Place[R]:
        """Return the place after an answer, which has to be hashable."""
        return self._next((False, answer), answer)

    def throw(self, error: BaseException) -> Place[R]:
        """Return the place after a failure."""
        known_by = (type(error), str(error), getattr(error, "performed", None))
        return self._next((True, error), known_by)

    def _next(self, move: _Move, known_by: Hashable) -> Place[R]:
        # An answer and its type: True is equal to 1, and means something else.
        name = (move[0], type(known_by), known_by)
        found = self._after.get(name)
        if found is None:
            found = self._after[name] = Place(self._begin, (*self._path, move))
            found.advance(self._take(), move)
        return found

    def _take(self) -> Flow[R]:
        """Return a flow that stands here: the one that came here, or one that is run again."""
        flow, self._live = self._live, None
        if flow is None:
            flow = self._begin()
            next(flow)
            for move in self._path:
                _give(flow, move)
        return flow

    def advance(self, flow: Flow[R], move: _Move) -> None:
        """Come here: with the flow of the place before, and what it is given. For this module."""
        try:
            self.effect = _give(flow, move)
            self._live = flow
        except StopIteration as stop:
            self.result = cast("R", stop.value)
        except BaseException as error:  # noqa: BLE001 - how a flow ends is its caller's to judge
            self.failure = error


def first(begin: Callable[[], Flow[R]]) -> Place[R]:
    """Return the place of the first effect of a flow; `begin` makes an equal flow every time."""
    place = Place(begin, ())
    place.advance(begin(), (False, None))
    return place


def _give(flow: Flow[R], move: _Move) -> Effect[object]:
    raised, what = move
    return flow.throw(cast("BaseException", what)) if raised else flow.send(what)
