"""The explorer itself: it visits everything, once, and remembers the shortest failure."""

from __future__ import annotations

import pytest

from replayfloor.testing.explore import Chooser, Violation, explore


def test_every_combination_is_visited_once() -> None:
    seen: list[tuple[int, int]] = []

    def run(chooser: Chooser) -> None:
        first = chooser.choose(["a", "b"])
        second = chooser.choose(["x", "y", "z"][: 2 + first])
        seen.append((first, second))

    report = explore(run)

    assert sorted(seen) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert report.schedules == len(seen)


def test_the_shortest_broken_schedule_is_kept() -> None:
    def run(chooser: Chooser) -> None:
        steps = 0
        while chooser.choose(["go on", "stop"]) == 0 and steps < 3:
            steps += 1
        if steps >= 1:
            raise Violation(f"went on {steps} times")

    report = explore(run)

    assert report.broken == 4
    assert report.shortest is not None
    assert report.shortest.schedule == ("go on", "stop")


def test_a_world_that_is_too_large_is_refused() -> None:
    def run(chooser: Chooser) -> None:
        for _ in range(20):
            chooser.choose(["left", "right"])

    with pytest.raises(OverflowError, match="more than 100"):
        explore(run, schedules_max=100)
