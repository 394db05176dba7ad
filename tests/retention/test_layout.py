"""Partitions: how wide, how many are live, and when there are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention import PolicyError
from replayfloor.retention.layout import (
    LIVE_PARTITIONS_MAX,
    Partitioned,
    Plain,
    advise_layout,
    live_partitions,
    partition_width_s,
)

HOUR = 3600
HOURS_MAX = 400 * 24


def test_no_retention_from_an_hour_to_400_days_has_more_than_eight_live_partitions() -> None:
    for hours in range(1, HOURS_MAX + 1):
        width_s = partition_width_s(hours * HOUR)
        assert width_s % HOUR == 0
        assert -(-hours * HOUR // width_s) + 2 <= LIVE_PARTITIONS_MAX, hours


@given(st.floats(1, HOURS_MAX * HOUR))
def test_a_retention_of_no_whole_hours_keeps_the_limit_too(retention_s: float) -> None:
    assert live_partitions(retention_s, partition_width_s(retention_s)) <= LIVE_PARTITIONS_MAX


@given(st.integers(2, HOURS_MAX))
def test_an_hour_narrower_would_be_too_many(hours: int) -> None:
    width_s = partition_width_s(hours * HOUR)

    if width_s > HOUR:
        assert live_partitions(hours * HOUR, width_s - HOUR) > LIVE_PARTITIONS_MAX


@given(st.integers(1, HOURS_MAX * HOUR), st.integers(0, 10**9))
def test_no_more_partitions_than_said_hold_what_is_kept_and_the_next(
    retention_s: int, now_s: int
) -> None:
    width_s = int(partition_width_s(retention_s))
    # Dropped once its end is a retention ago; the one after the current one is made ahead.
    oldest = (now_s - retention_s) // width_s
    newest = now_s // width_s + 1

    assert newest - oldest + 1 <= live_partitions(retention_s, width_s)


@pytest.mark.parametrize(
    ("retention_h", "width_h"), [(0.2, 1), (1, 1), (24, 4), (84, 14), (35 * 24, 140)]
)
def test_the_width_follows_from_the_retention(retention_h: float, width_h: int) -> None:
    assert partition_width_s(retention_h * HOUR) == width_h * HOUR


def test_below_a_write_a_second_one_table_is_enough() -> None:
    assert isinstance(advise_layout(0.99, 84 * HOUR), Plain)
    assert isinstance(advise_layout(0, 84 * HOUR), Plain)


def test_from_a_write_a_second_on_partitions_are_dropped() -> None:
    layout = advise_layout(1, 84 * HOUR)

    assert isinstance(layout, Partitioned)
    assert (layout.width_s, layout.live) == (14 * HOUR, 8)
    assert "at most 8 partitions of 14 h" in "; ".join(layout.reasons)


@pytest.mark.parametrize(("rate", "retention_s"), [(-1, 1), (float("nan"), 1), (1e9, 1), (1, 0)])
def test_what_is_no_rate_and_no_retention_is_refused(rate: float, retention_s: float) -> None:
    with pytest.raises(PolicyError):
        advise_layout(rate, retention_s)
