"""The explorer of states: it finds what running every schedule finds, and the shortest of it."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Self

import pytest

from replayfloor.core.effects import Effect
from replayfloor.testing.explore import Violation, read_path
from replayfloor.testing.explore_flow import first
from replayfloor.testing.explore_states import Move, replay, shorten, visit


class Steps:
    """Two walkers of three steps each; it breaks when the second one is ahead by `ahead`."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.left = [3, 3]

    def moves(self) -> Sequence[Move]:
        return [Move(f"walker {at}", _Walk(at)) for at in (0, 1) if self.left[at]]

    def copy(self) -> Self:
        other = type(self)(self.ahead)
        other.left = self.left.copy()
        return other

    def key(self) -> tuple[Hashable, ...]:
        return tuple(self.left)

    def check(self) -> None:
        pass


class _Walk:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, course: Steps) -> str:
        course.left[self.at] -= 1
        if course.left[0] - course.left[1] >= course.ahead:
            raise Violation("the second one is ahead")
        return f"{course.left[self.at]} left"


def test_every_order_is_counted_and_no_state_is_visited_twice() -> None:
    found = visit(lambda: Steps(ahead=4))

    assert (found.schedules, found.states, found.broken) == (20, 16, 0)
    assert found.shortest is None


def test_the_shortest_broken_schedule_is_found_and_printed_with_what_was_answered() -> None:
    found = visit(lambda: Steps(ahead=2))

    assert found.broken > 1
    assert str(found.shortest) == (
        "the second one is ahead\n  1. walker 1 -> 2 left\n  2. walker 1\n  path: 1,1"
    )


def test_a_printed_schedule_leads_there_again() -> None:
    printed = str(visit(lambda: Steps(ahead=2)).shortest)

    assert str(replay(lambda: Steps(ahead=2), read_path(printed))) == printed


def test_a_path_is_any_numbers_and_goes_on_with_the_first_move_after_its_end() -> None:
    assert replay(lambda: Steps(ahead=4), [7, 9, 100]) is None
    assert replay(lambda: Steps(ahead=2), [7, 9, 100]) is not None


def test_a_long_schedule_is_made_short() -> None:
    long = replay(lambda: Steps(ahead=2), [0, 1, 1, 1])

    assert long is not None
    assert len(long.path) == 4
    assert shorten(lambda: Steps(ahead=2), long).path == (1, 1)


def test_a_world_that_is_too_large_is_refused() -> None:
    with pytest.raises(OverflowError, match="more than 5 states"):
        visit(lambda: Steps(ahead=4), states_max=5)


class _Ask(Effect[object]):
    """Asks for anything."""


def test_a_flow_stands_at_one_place_for_equal_answers_and_at_others_for_others() -> None:
    begun: list[int] = []

    def flow() -> Generator[Effect[object], object, str]:
        begun.append(1)
        one = yield from _Ask()
        try:
            other = yield from _Ask()
        except ValueError as error:
            return f"{one} and {error}"
        return f"{one} and {other}"

    place = first(flow)
    true, number = place.send(True), place.send(1)

    assert place.send(True) is true
    assert true is not number
    assert true.send("b").result == "True and b"
    assert number.throw(ValueError("c")).result == "1 and c"
    assert number.send("d").result == "1 and d"
    assert len(begun) == 3, "run again only for an answer that is new at a place it has left"
