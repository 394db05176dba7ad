"""Queues in Postgres, by value: attempts and delays, worked by hand."""

from __future__ import annotations

from datetime import date

import pytest

from replayfloor.retention import HorizonUnknown, PolicyError
from replayfloor.retention.brokers_postgres import (
    pgqueuer_window,
    postgres_window,
    procrastinate_window,
)
from replayfloor.retention.terms import Confidence

TODAY = date(2026, 11, 30)


def test_attempts_times_delay() -> None:
    window = postgres_window(attempts=4, delay_s=30, read_on=TODAY, source="jobs.py")

    assert window.seconds == 120
    assert window.term().provenance.source == "jobs.py"
    assert window.term().provenance.confidence is Confidence.GIVEN


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"attempts": 0}, 0),
        ({"attempts": 1}, 30),
        ({"attempts": 4, "attempt_s": 10}, 160),
        # 30 + 60 + 120 + 240
        ({"attempts": 4, "factor": 2}, 450),
        # 30 + 60 + 100 + 100
        ({"attempts": 4, "factor": 2, "delay_max_s": 100}, 290),
        ({"attempts": 2, "delay_max_s": 10}, 20),
        # However far it grows, the longest delay holds.
        ({"attempts": 5000, "factor": 10, "delay_max_s": 60, "delay_s": 60}, 300_000),
    ],
)
def test_delays_may_grow_and_attempts_take_time(options: dict[str, float], seconds: float) -> None:
    given = {"delay_s": 30, "read_on": TODAY} | options

    assert postgres_window(**given).seconds == seconds  # type: ignore[arg-type]


def test_without_a_limit_there_is_no_end() -> None:
    window = postgres_window(attempts=None, delay_s=30, read_on=TODAY)

    with pytest.raises(HorizonUnknown, match="no limit to the attempts"):
        window.term()
    assert window.term("2d").seconds == 2 * 86_400.0


def test_procrastinates_strategy_is_the_sum_of_its_waits() -> None:
    window = procrastinate_window(
        max_attempts=3, wait=10, linear_wait=5, exponential_wait=3, read_on=TODAY
    )

    # Of each retry: wait, linear_wait times the attempts before, exponential_wait to their power.
    assert window.seconds == (10 + 0 + 3) + (10 + 5 + 9) + (10 + 10 + 27)
    assert procrastinate_window(max_attempts=None, wait=1, read_on=TODAY).seconds is None


def test_pgqueuer_picks_a_job_up_again_without_a_limit() -> None:
    window = pgqueuer_window(retry_timer_s=30, read_on=TODAY)

    assert window.seconds is None
    assert window.settings[0].value == "30 s"


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": -1},
        {"attempts": 1_000_000},
        {"delay_s": -1},
        {"delay_s": float("nan")},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"attempt_s": -1},
        {"delay_max_s": -1},
        {"attempts": 100_000, "delay_s": 86_400},
        {"attempts": 100, "factor": 10},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    given = {"attempts": 3, "delay_s": 30, "read_on": TODAY} | options

    with pytest.raises(PolicyError):
        postgres_window(**given)  # type: ignore[arg-type]


def test_a_wait_that_explodes_is_refused() -> None:
    with pytest.raises(PolicyError, match="ten years"):
        procrastinate_window(max_attempts=2000, exponential_wait=100, read_on=TODAY)
