"""The arithmetic of waits, profiles and policies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.client.policy import RetryPolicy, backoff_s, retry_after_s
from replayfloor.client.profiles import RETENTION_MAX_S, Profile
from replayfloor.core.errors import ConfigurationError

# Tue, 15 Nov 1994 08:12:31 GMT, the example of RFC 9110, 5.6.7 being Sun, 06 Nov 1994 08:49:37 GMT.
NOW_NS = 784_887_151 * 10**9


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("0", 0),
        ("120", 120),
        (" 120\t", 120),
        ("007", 7),
        ("Tue, 15 Nov 1994 08:12:41 GMT", 10),
        ("Tuesday, 15-Nov-94 08:12:41 GMT", 10),
        ("Tue Nov 15 08:12:41 1994", 10),
        ("Tue Nov  1 08:12:41 1994", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Wednesday, 15-Nov-45 08:12:31 GMT", 0),
        ("Tue, 15 Nov 1994 08:12:60 GMT", 28),
    ],
)
def test_retry_after_in_its_legal_forms(value: str, wait_s: float) -> None:
    assert retry_after_s(value, NOW_NS) == wait_s


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "inf",
        "nan",
        "120, 240",
        "120s",
        "\u0661\u0662",
        "soon",
        "Tue, 15 Nov 1994 08:12:41",
        "Tue, 15 Nov 1994 08:12:41 +0100",
        "Tue, 32 Nov 1994 08:12:41 GMT",
        "Tue, 15 Foo 1994 08:12:41 GMT",
        "Tue, 15 Nov 1994 25:12:41 GMT",
    ],
)
def test_retry_after_in_any_other_form_is_not_guessed_at(value: str) -> None:
    assert retry_after_s(value, NOW_NS) is None


def test_a_two_digit_year_more_than_fifty_years_ahead_is_in_the_past() -> None:
    in_fifty_years = retry_after_s("Tuesday, 15-Nov-44 08:12:31 GMT", NOW_NS)

    assert in_fifty_years is not None
    assert in_fifty_years > 49 * 365 * 86_400


@pytest.mark.parametrize("digits", [10, 11, 400, 5000])
def test_a_number_without_end_is_more_than_any_budget(digits: int) -> None:
    wait_s = retry_after_s("9" * digits, NOW_NS)

    assert wait_s is not None
    assert wait_s >= 9_999_999_999


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_the_jitter_is_within_the_cap(attempt: int, draw: float) -> None:
    policy = RetryPolicy(wait_base_s=0.5, wait_cap_s=8)

    wait_s = backoff_s(policy, attempt, draw)

    assert 0 <= wait_s <= 8
    assert wait_s <= 0.5 * 2 ** min(attempt - 1, 10)


@pytest.mark.parametrize(
    "numbers",
    [
        {"attempts_max": 0},
        {"attempts_max": 10_000},
        {"wait_base_s": -1.0},
        {"wait_base_s": 9.0, "wait_cap_s": 8.0},
        {"wait_cap_s": math.inf},
        {"budget_s": 0.0},
        {"budget_s": math.nan},
    ],
)
def test_a_policy_that_makes_no_schedule_is_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        RetryPolicy(**numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("retention_s", "window_s"),
    [
        (2.0, 1.0),
        (100.0, 50.0),
        (200.0, 140.0),
        (86_400.0, 86_400 * 0.98),
        (30 * 86_400.0, 30 * 86_400 * 0.98),
    ],
)
def test_the_margin_is_a_minute_or_two_percent_but_at_most_half(
    retention_s: float, window_s: float
) -> None:
    assert Profile(name="p", retention_s=retention_s).send_window_s == pytest.approx(window_s)


def test_a_margin_that_is_given_is_kept() -> None:
    profile = Profile(name="p", retention_s=100, margin_s=0.5)

    assert profile.send_deadline_ns(10**18) == 10**18 + 99_500_000_000


def test_a_namespace_is_the_name_unless_it_is_given() -> None:
    assert Profile(name="p", retention_s=1).namespace == "p"
    assert Profile(name="p", namespace="p/acct_1/test", retention_s=1).namespace == "p/acct_1/test"


@pytest.mark.parametrize(
    "facts",
    [
        {"retention_s": 0},
        {"retention_s": -1},
        {"retention_s": math.nan},
        {"retention_s": RETENTION_MAX_S + 1},
        {"margin_s": 100},
        {"margin_s": -1},
        {"name": ""},
        {"header": "Idempotency Key"},
        {"header": ""},
        {"methods": ()},
    ],
)
def test_a_profile_that_cannot_be_honoured_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Profile(**({"name": "p", "retention_s": 100} | facts))  # type: ignore[arg-type]
