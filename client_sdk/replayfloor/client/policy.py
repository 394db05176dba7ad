"""When to try again: arithmetic on numbers that are handed in. No clock and no randomness here.

The wait before attempt n + 1 is `asked + draw * min(cap, base * 2 ** (n - 1))`: full jitter on top
of what the server asked for, so that Retry-After is never undercut and clients do not come back
all at once (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from replayfloor.core.errors import ConfigurationError

IN_FLIGHT_WAIT_S: Final = 1.0
"""Least wait after "in flight" without a Retry-After: 1 s is the smallest that field can say."""

RETRY_AFTER_DIGITS_MAX: Final = 10
"""Longer numbers exceed every budget anyway, and converting them takes time."""

ATTEMPTS_LIMIT: Final = 1000
"""No policy may ask for more attempts in one call: a mistake of unit, or a loop."""

LEASE_MAX_S: Final = 3600.0
"""A crashed call holds its operation back for as long as its lease: an hour is no lease."""

LEASE_POLL_S: Final = 0.1
"""First look at whether another call is done; the looks get rarer by half each time."""
LEASE_POLL_CAP_S: Final = 1.0

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip
_DAY: Final = r"(?P<day>\d\d)"
_MONTH: Final = r"(?P<month>[A-Z][a-z]{2})"
_YEAR: Final = r"(?P<year>\d{4})"
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES: Final = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        # IMF-fixdate, RFC 850 and asctime: RFC 9110, 5.6.7.
        rf"[A-Z][a-z]{{2}}, {_DAY} {_MONTH} {_YEAR} {_CLOCK} GMT",
        rf"[A-Z][a-z]{{5,8}}, {_DAY}-{_MONTH}-(?P<year>\d\d) {_CLOCK} GMT",
        rf"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ \d]\d) {_CLOCK} {_YEAR}",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long one call goes on. It counts per call; the send deadline holds over all calls.

    Args:
        attempts_max: attempts of one call, the first included.
        wait_base_s: upper end of the first random wait; it doubles with every attempt.
        wait_cap_s: upper end of every random wait.
        budget_s: seconds one call may take, from its start to its end: no wait is begun that does
            not fit, and no single wait on the network is longer than what is left.
        lease_s: seconds for which one call alone may send an operation, renewed by every attempt.
            After a crash, another call has to wait for so long. An attempt that takes longer may
            meet a second one with the same key, which the server then refuses as in flight.

    Defaults: waits as in the Stripe and OpenAI clients (0.5 s doubling to 8 s), in total not more
    than the 120 s of google-api-core. Raises ConfigurationError.
    """

    attempts_max: int = 6
    wait_base_s: float = 0.5
    wait_cap_s: float = 8.0
    budget_s: float = 120.0
    lease_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no schedule."""
        if not 1 <= self.attempts_max <= ATTEMPTS_LIMIT:
            raise ConfigurationError(f"attempts_max must be within 1..{ATTEMPTS_LIMIT}")
        if not 0 <= self.wait_base_s <= self.wait_cap_s < math.inf:
            raise ConfigurationError("waits must be 0 <= wait_base_s <= wait_cap_s, and finite")
        if not 0 < self.budget_s < math.inf:
            raise ConfigurationError("budget_s must be more than 0, and finite")
        if not 0 < self.lease_s <= LEASE_MAX_S:
            raise ConfigurationError(f"lease_s must be more than 0 and at most {LEASE_MAX_S:.0f}")


DEFAULT_POLICY: Final = RetryPolicy()


def backoff_s(policy: RetryPolicy, attempt: int, draw: float) -> float:
    """Return the random part of the wait after attempt number `attempt` of this call."""
    doubled = policy.wait_base_s * 2.0 ** min(attempt - 1, ATTEMPTS_LIMIT)
    return draw * min(policy.wait_cap_s, doubled)


def lease_poll_s(looks: int) -> float:
    """Return the seconds until the next look at another call's lease, after so many looks."""
    return float(min(LEASE_POLL_CAP_S, LEASE_POLL_S * 1.5 ** min(looks, ATTEMPTS_LIMIT)))


def retry_after_s(value: str, now_ns: int) -> float | None:
    """Return the seconds that a Retry-After asks to wait, at least 0; None if it is malformed.

    Digits, or one of the three date forms (RFC 9110, 10.2.3 and 5.6.7). Signs, fractions and lists
    are not legal and are not guessed at.
    """
    value = value.strip(" \t")
    if value.isascii() and value.isdigit():
        shortened = value.lstrip("0")[: RETRY_AFTER_DIGITS_MAX + 1]
        return float(shortened or "0")
    moment = _moment(value, datetime.fromtimestamp(now_ns / 1e9, UTC).year)
    return None if moment is None else max(0.0, moment.timestamp() - now_ns / 1e9)


def _moment(value: str, this_year: int) -> datetime | None:
    for pattern in _DATES:
        if match := pattern.fullmatch(value):
            break
    else:
        return None
    part = match.groupdict()
    year = int(part["year"])
    if len(part["year"]) == 2:
        # The latest year with these digits that is not more than 50 ahead (RFC 9110, 5.6.7).
        year = this_year + 50 - (this_year + 50 - year) % 100
    month, day = part["month"], int(part["day"])
    hour, minute, second = int(part["hour"]), int(part["minute"]), int(part["second"])
    second -= second == 60  # a leap second, which datetime does not know
    try:
        number = _MONTHS.index(month) + 1
        return datetime(year, number, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
