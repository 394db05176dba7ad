"""Percentiles of times of which some are known only by a lower bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.client.tail.measure import Bound, Tail

TIMES = st.lists(st.integers(0, 50), max_size=40)
PERCENTS = st.integers(1, 100)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(1, 10), (20, 10), (21, 20), (50, 30), (80, 40), (81, 50), (99, 50), (100, 50)],
)
def test_without_open_operations_it_is_the_nearest_rank(percent: int, expected: int) -> None:
    assert Tail([50, 40, 30, 20, 10]).percentile(percent) == Bound(expected, at_least=False)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        # Of 0 0 0 0 0 0 0 5 (8, and perhaps more) 9, the eighth is 5 whatever becomes of the 8 ...
        (50, Bound(0, at_least=False)),
        (80, Bound(5, at_least=False)),
        # ... the ninth is 9 if the 8 becomes more than 9, and the largest is what the 8 becomes.
        (90, Bound(8, at_least=True)),
        (100, Bound(9, at_least=True)),
    ],
)
def test_worked_figures_with_one_open_operation(percent: int, expected: Bound) -> None:
    assert Tail([0] * 7 + [5, 9], [8]).percentile(percent) == expected


def test_leaving_the_open_ones_out_would_have_shown_a_shorter_tail() -> None:
    answered, stuck = [0] * 98, [3_600, 7_200]

    assert Tail(answered).percentile(99) == Bound(0, at_least=False)
    assert Tail(answered, stuck).percentile(99) == Bound(3_600, at_least=True)


def test_a_young_open_operation_makes_the_middle_no_less_certain_than_it_is() -> None:
    # Half of them are 7 or less, whether the open one becomes the longest or not.
    assert Tail([7, 7, 7], [1]).percentile(50) == Bound(7, at_least=False)


def test_only_open_operations_give_lower_bounds_only() -> None:
    tail = Tail([], [1, 2, 3])

    assert tail.percentile(50) == Bound(2, at_least=True)
    assert tail.largest == Bound(3, at_least=True)


def test_of_no_operation_there_is_no_percentile() -> None:
    assert Tail([]).percentile(99) is None
    assert Tail([]).largest is None


def test_how_many_are_longer_is_a_range_while_operations_are_open() -> None:
    tail = Tail([1, 5], [3])

    assert [tail.longer_than(ns) for ns in (0, 1, 3, 5)] == [(3, 3), (2, 2), (1, 2), (0, 1)]


def _by_definition(times: list[int], percent: int) -> int:
    """The least time that `percent` % of them do not exceed, by counting."""
    enough = (t for t in sorted(times) if sum(x <= t for x in times) * 100 >= percent * len(times))
    return next(enough)


@given(TIMES.filter(bool), PERCENTS)
def test_it_is_the_least_time_that_so_many_do_not_exceed(times: list[int], percent: int) -> None:
    assert Tail(times).percentile(percent) == Bound(_by_definition(times, percent), at_least=False)


@given(TIMES, TIMES, st.data())
def test_whatever_becomes_of_the_open_ones_the_bound_holds(
    known: list[int], open_: list[int], data: st.DataObject
) -> None:
    """And where the figure is not marked, it is the figure."""
    if not known + open_:
        return
    become = [data.draw(st.integers(at_least, 200)) for at_least in open_]
    percent = data.draw(PERCENTS)

    bound = Tail(known, open_).percentile(percent)

    true = _by_definition(known + become, percent)
    assert bound is not None
    assert bound.ns <= true
    assert bound.at_least or bound.ns == true


@given(TIMES, TIMES.filter(bool), PERCENTS)
def test_no_figure_is_marked_that_could_not_become_greater(
    known: list[int], open_: list[int], percent: int
) -> None:
    bound = Tail(known, open_).percentile(percent)

    assert bound is not None
    never_ending = _by_definition(known + [10**6] * len(open_), percent)
    assert bound.at_least == (never_ending > bound.ns)


@given(TIMES, TIMES, st.integers(0, 60), st.integers(0, 60))
def test_the_share_that_is_longer_only_falls(
    known: list[int], open_: list[int], one: int, other: int
) -> None:
    tail = Tail(known, open_)
    sooner, later = tail.longer_than(min(one, other)), tail.longer_than(max(one, other))

    assert later[0] <= sooner[0]
    assert later[1] <= sooner[1]
    assert sooner[0] <= sooner[1] <= len(tail)
