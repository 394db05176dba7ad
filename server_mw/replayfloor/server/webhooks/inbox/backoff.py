"""When an event that failed is tried again, and how often. Arithmetic; the chance is the caller's.

Full jitter: anywhere between at once and the doubled pause. What failed together, because one
service was down, does not come back together.
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 5.0
"""Upper end of the first pause: what is wrong for a moment (a deadlock, a restart) is over by then,
and nobody waits long for an event that was unlucky once."""

LONGEST_S: Final = 6 * 3600.0
"""Upper end of the longest: an application that works again in the morning is noticed by noon."""

ATTEMPTS_MAX: Final = 20
"""After so many, a person has to look. With the two figures above that is after a day on average,
and two at most: an outage over a night is waited out, and a fault in the code is not hidden for
long. (Senders themselves give up after some hours to some days.)"""


def pause_ms(attempts: int, chance: float, first_s: float, longest_s: float) -> int:
    """Return how long to wait after the given number of attempts, in ms.

    `chance` is a number from 0 to below 1.
    """
    # The exponent is bounded before it is used: 2.0 ** 2000 would be an error.
    upper_s = min(longest_s, first_s * 2.0 ** min(attempts - 1, 64))
    return round(upper_s * 1000 * chance)
