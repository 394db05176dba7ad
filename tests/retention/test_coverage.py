"""What a retention covers of a horizon, in exact shares and in words."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention import PolicyError, coverage
from replayfloor.retention.coverage import percent, three_digits
from replayfloor.retention.durations import US_PER_S, exact_us, seconds
from replayfloor.retention.picture import ASCII, BLOCKS, bar

HOUR, DAY = 3600.0, 86_400.0
lengths = st.integers(1, 3600 * 86_400 * US_PER_S).map(seconds)


def test_a_day_of_three_is_a_third() -> None:
    found = coverage(24 * HOUR, 72 * HOUR)

    assert (found.percent, found.exact_share, found.open_s) == ("33.3 %", Fraction(1, 3), 48 * HOUR)


def test_a_day_of_a_month_leaves_96_7_percent_open() -> None:
    found = coverage(24 * HOUR, 720 * HOUR)

    assert found.percent == "3.33 %"
    assert found.open_s == 696 * HOUR
    assert found.open_percent == "96.7 %"
    assert str(found) == "1 d of 30 d = 3.33 %, leaving 29 d = 96.7 % open"


def test_thirty_five_days_instead_of_one_buy_97_1_percent() -> None:
    assert coverage(24 * HOUR, 35 * DAY).open_percent == "97.1 %"


def test_a_longer_retention_covers_all_and_no_more() -> None:
    found = coverage(36 * HOUR, 24 * HOUR)

    assert (found.share, found.open_s, found.open_share) == (1.0, 0.0, 0.0)
    assert found.is_complete
    assert str(found) == "36 h of 24 h = 100 %"


def test_nothing_to_cover_is_covered() -> None:
    assert coverage(HOUR, 0).is_complete


@given(lengths, lengths)
def test_what_is_covered_and_what_is_open_make_the_horizon(kept_s: float, asked_s: float) -> None:
    found = coverage(kept_s, asked_s)

    covered_us = found.exact_share * exact_us(asked_s)
    assert covered_us + exact_us(found.open_s) == exact_us(asked_s)
    assert found.is_complete == (kept_s >= asked_s)


@given(lengths, lengths)
def test_only_what_is_complete_is_called_100_percent(kept_s: float, asked_s: float) -> None:
    found = coverage(kept_s, asked_s)

    assert (found.percent == "100 %") == found.is_complete
    assert (found.open_percent == "0 %") == found.is_complete


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Fraction(99_999, 100_000), "> 99.9 %"), (Fraction(1, 10**6), "< 0.01 %"),
        (Fraction(999, 1000), "99.9 %"), (Fraction(1, 2), "50.0 %"), (Fraction(0), "0 %"),
        (Fraction(1), "100 %"), (Fraction(1, 10_000), "0.0100 %"),
    ],
)  # fmt: skip
def test_a_share_that_is_nearly_all_or_nothing_does_not_look_like_it(
    share: Fraction, text: str
) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(9996, 1000), "10.0"), (Fraction(228_096, 1000), "228"), (Fraction(0), "0"),
        (Fraction(99_960, 100), "1000"), (Fraction(1, 3), "0.333"), (Fraction(1, 8), "0.125"),
    ],
)  # fmt: skip
def test_three_digits_are_three_digits(value: Fraction, text: str) -> None:
    assert three_digits(value) == text


def test_what_is_no_length_is_refused() -> None:
    with pytest.raises(PolicyError, match="a horizon"):
        coverage(HOUR, -1)


@given(st.fractions(0, 1), st.integers(2, 60))
def test_a_bar_is_full_only_if_all_is_covered(share: Fraction, width: int) -> None:
    for ink in (BLOCKS, ASCII):
        drawn = bar(share, ink, width)

        assert len(drawn) == width
        assert (drawn == ink.covered * width) == (share == 1)
        assert (drawn == ink.left_open * width) == (share == 0)
