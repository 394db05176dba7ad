"""Lengths of time: which texts are taken, which are refused and how, and that nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention import PolicyError, format_duration, parse_duration
from replayfloor.retention.durations import (
    DURATION_MAX_S,
    US_PER_S,
    Unit,
    common_unit,
    exact_us,
    in_words,
    seconds,
)

HOUR, DAY = 3600.0, 86_400.0
lengths = st.integers(0, int(DURATION_MAX_S) * US_PER_S).map(seconds)
round_lengths = st.builds(
    lambda count, unit: seconds(count * unit.us), st.integers(0, 999), st.sampled_from(Unit)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("84h", 84 * HOUR), ("30d", 30 * DAY), ("5m", 300.0), ("30 d", 30 * DAY), ("500ms", 0.5),
        ("12 min", 720.0), ("2w", 14 * DAY), ("1.5h", 5400.0), ("0,5s", 0.5), ("0s", 0.0),
        ("1d12h", 36 * HOUR), ("23 h 31 min 12 s", 84_672.0), (" 7d ", 7 * DAY),
        ("P3D", 3 * DAY), ("PT84H", 84 * HOUR), ("P1DT12H", 36 * HOUR), ("PT5M", 300.0),
        ("P2W", 14 * DAY), ("PT0.5S", 0.5), ("PT21H17M10S", 76_630.0), ("0.000001s", 1e-6),
    ],
)  # fmt: skip
def test_lengths_are_read_exactly(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"), ("84", 'write "84s"'), ("5M", 'write "5min"'), ("1y", "in days"),
        ("2 months", "in days"), ("P1M", '"P30D"'), ("P1Y", '"P30D"'), ("P1Y2M3D", '"P30D"'),
        ("P1YT5M", '"P30D"'), ("p3d", 'write "P3D"'), ("30 days", 'write "30d"'),
        ("84H", 'write "84h"'), ("5 minutes", 'write "5min"'), ("5 parsecs", "no unit of time"),
        ("-5m", "negative"), ("\N{MINUS SIGN}5m", "negative"), ("-P1D", "negative"),
        ("11000d", "ten years"), ("9999999999999999d", "too long"), ("0.0000001s", "microsecond"),
        ("PT", "not understood"), ("P", "not understood"), ("soon", "not understood"),
        ("12h1d", "largest first"), ("1h2h", "largest first"), ("1.5d12h", "last number"),
        ("P1.5DT2H", "last number"), ("1e3s", "not understood"), ("٣d", "not understood"),
        ("1h\x1b[2J", "not understood"), ("infinity", "not understood"),
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_no_length_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=r".") as caught:
        parse_duration(text)

    assert says in str(caught.value)
    assert "\x1b" not in str(caught.value)


@given(lengths)
def test_every_length_comes_back_from_its_text(length_s: float) -> None:
    assert parse_duration(format_duration(length_s)) == length_s
    assert parse_duration(in_words(length_s)) == length_s


@given(st.text(max_size=12))
def test_any_text_is_a_length_or_a_refusal(text: str) -> None:
    try:
        length_s = parse_duration(text)
    except PolicyError:
        return
    assert 0 <= length_s <= DURATION_MAX_S


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (84 * HOUR, "84 h"), (35 * DAY, "35 d"), (720.0, "12 min"), (0.0, "0 s"), (DAY, "1 d"),
        (0.5, "500 ms"), (1.5, "1.5 s"), (3601.0, "3601 s"), (1e-6, "0.001 ms"),
    ],
)  # fmt: skip
def test_the_text_is_the_largest_unit_of_a_whole_number(length_s: float, text: str) -> None:
    assert format_duration(length_s) == text


def test_several_units_are_used_where_one_would_be_hard_to_read() -> None:
    assert in_words(84_672.0) == "23 h 31 min 12 s"
    assert in_words(84 * HOUR) == "84 h"
    assert in_words(3600.5) == "3600.5 s"


def test_a_unit_that_cannot_say_it_exactly_is_not_used() -> None:
    assert format_duration(5400.0, Unit.HOUR) == "90 min"
    assert format_duration(DAY, Unit.HOUR) == "24 h"


@given(st.lists(round_lengths, min_size=1))
def test_the_common_unit_says_every_length_as_a_whole_number(values: list[float]) -> None:
    unit = common_unit(values)

    for value in values:
        shown = format_duration(value, unit)
        assert parse_duration(shown) == value
        if unit is not Unit.SECOND:
            assert shown.endswith(f" {unit.value}")


@given(st.integers(0, int(DURATION_MAX_S) * US_PER_S))
def test_a_float_of_seconds_holds_every_microsecond(us: int) -> None:
    assert exact_us(seconds(us)) == us
    assert exact_us(timedelta(microseconds=us)) == us


@pytest.mark.parametrize(
    "value", [-1.0, float("nan"), float("inf"), DURATION_MAX_S + 1, True, timedelta(days=-1)]
)
def test_what_is_no_length_is_refused_as_a_number_too(value: float | timedelta) -> None:
    with pytest.raises(PolicyError):
        exact_us(value)
