"""Queues that live in Postgres, by value: how often a job is tried, and how far apart. Pure.

There is nothing to read here: the figures stand in the application's code. Procrastinate retries
after wait + linear_wait * attempt + exponential_wait ** (attempt + 1) seconds; pgqueuer picks a job
up again when its heartbeat is older than the retry timer, as often as it has to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from itertools import accumulate

from replayfloor.retention.brokers import Setting, Window
from replayfloor.retention.durations import DURATION_MAX_S, in_words
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.terms import Confidence

ATTEMPTS_MAX = 100_000
"""Beyond that it is a mistake, or meant to be without end."""


def postgres_window(
    *,
    attempts: int | None,
    delay_s: float,
    read_on: date,
    factor: float = 1.0,
    delay_max_s: float | None = None,
    attempt_s: float = 0.0,
    source: str = "by value",
    queue: str = "jobs",
) -> Window:
    """Return how long a job may be run again.

    Args:
        attempts: how often it is tried again, at most; None for no limit.
        delay_s: seconds before the first retry.
        read_on: today, which stands beside the figure.
        factor: by how much each delay is longer than the one before.
        delay_max_s: the longest delay, in seconds.
        attempt_s: how long one attempt may take, in seconds.
        source: where the figures stand, such as a file of the application.
        queue: the kind of job.

    Raises PolicyError.
    """
    if factor < 1 or not math.isfinite(factor):
        raise PolicyError(f"factor is {factor}", advice="delays grow by 1 (not at all) or more")
    _check_lengths(delay_s=delay_s, delay_max_s=delay_max_s, attempt_s=attempt_s)
    settings = [
        Setting("delay", in_words(delay_s), "from one attempt to the next"),
        Setting("attempt", in_words(attempt_s), "is how long one attempt may take"),
    ]
    if factor > 1:
        settings.append(Setting("factor", f"{factor:g}", "by which each delay grows"))
    if attempts is None:
        return _endless(settings, source=source, queue=queue, read_on=read_on)
    limit_s = math.inf if delay_max_s is None else delay_max_s
    delays = accumulate(
        range(_check_attempts(attempts) - 1),
        lambda delay, _: min(delay * factor, DURATION_MAX_S),
        initial=delay_s,
    )
    return _window(
        (min(delay, limit_s) for delay in delays) if attempts else (),
        attempts=attempts,
        attempt_s=attempt_s,
        settings=settings,
        source=source,
        queue=queue,
        read_on=read_on,
    )


def procrastinate_window(
    *,
    max_attempts: int | None,
    read_on: date,
    wait: float = 0,
    linear_wait: float = 0,
    exponential_wait: float = 0,
    attempt_s: float = 0.0,
    source: str = "by value",
    queue: str = "jobs",
) -> Window:
    """Return how long a job of procrastinate may be run again, by its RetryStrategy's arguments.

    Raises PolicyError.
    """
    _check_lengths(
        wait=wait, linear_wait=linear_wait, exponential_wait=exponential_wait, attempt_s=attempt_s
    )
    settings = [
        Setting("wait", f"{wait:g} s", "before each retry"),
        Setting("linear_wait", f"{linear_wait:g} s", "more for each attempt that was made"),
        Setting("exponential_wait", f"{exponential_wait:g} s", "to the power of the attempts"),
        Setting("attempt", in_words(attempt_s), "is how long one attempt may take"),
    ]
    if max_attempts is None:
        return _endless(settings, source=source, queue=queue, read_on=read_on)
    return _window(
        (
            wait + linear_wait * attempt + _power(exponential_wait, attempt + 1)
            for attempt in range(_check_attempts(max_attempts))
        ),
        attempts=max_attempts,
        attempt_s=attempt_s,
        settings=settings,
        source=source,
        queue=queue,
        read_on=read_on,
    )


def pgqueuer_window(
    *, retry_timer_s: float, read_on: date, source: str = "by value", queue: str = "jobs"
) -> Window:
    """Return the window of pgqueuer: a job is picked up again until it ends, without a limit.

    Raises PolicyError.
    """
    _check_lengths(retry_timer_s=retry_timer_s)
    timer = Setting("retry_timer", in_words(retry_timer_s), "without a heartbeat, it is picked up")
    return _endless([timer], source=source, queue=queue, read_on=read_on)


def _window(
    delays: Iterable[float],
    *,
    attempts: int,
    attempt_s: float,
    settings: list[Setting],
    source: str,
    queue: str,
    read_on: date,
) -> Window:
    total_s = 0.0
    for delay in delays:
        total_s += delay + attempt_s
        if total_s > DURATION_MAX_S:
            raise PolicyError(
                f"{attempts} attempts take more than ten years", advice="limit them, or the delay"
            )
    return Window(
        broker="Postgres queue",
        queue=queue,
        seconds=total_s,
        driver="attempts x delay",
        settings=(Setting("attempts", str(attempts), "retries at most"), *settings),
        reasons=(
            f"the last of {attempts} retries starts {in_words(total_s)} after the first attempt",
            "while no worker runs nothing is tried: that is what planned_outage is for",
        ),
        unbounded=(),
        while_consumed_s=total_s,
        source=source,
        read_on=read_on,
        confidence=Confidence.GIVEN,
    )


def _endless(settings: list[Setting], *, source: str, queue: str, read_on: date) -> Window:
    return Window(
        broker="Postgres queue",
        queue=queue,
        seconds=None,
        driver="",
        settings=tuple(settings),
        reasons=(),
        unbounded=("there is no limit to the attempts",),
        source=source,
        read_on=read_on,
        confidence=Confidence.GIVEN,
    )


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except OverflowError:
        return math.inf


def _check_attempts(attempts: int) -> int:
    if not 0 <= attempts <= ATTEMPTS_MAX:
        raise PolicyError(
            f"attempts is {attempts}",
            advice=f"0 to {ATTEMPTS_MAX} retries, or None if there is no limit",
        )
    return attempts


def _check_lengths(**lengths_s: float | None) -> None:
    for name, length_s in lengths_s.items():
        if length_s is not None and not 0 <= length_s <= DURATION_MAX_S:
            raise PolicyError(f"{name} is {length_s}", advice="it is a number of seconds, from 0")
