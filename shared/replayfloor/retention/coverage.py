"""What a retention is worth: the share of a horizon in which a retry still meets its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from typing import Final

from replayfloor.retention.durations import common_unit, exact_us, format_duration, seconds

DIGITS: Final = 3
"""Significant digits of a share as text."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """A retention against a horizon, both in seconds; raises PolicyError for what is no length."""

    retention_s: float
    horizon_s: float

    def __post_init__(self) -> None:
        """Refuse what is no length."""
        object.__setattr__(self, "retention_s", seconds(exact_us(self.retention_s, "a retention")))
        object.__setattr__(self, "horizon_s", seconds(exact_us(self.horizon_s, "a horizon")))

    @property
    def exact_share(self) -> Fraction:
        """The share of the horizon that is covered, 0 to 1."""
        horizon_us = exact_us(self.horizon_s)
        if horizon_us == 0:
            return Fraction(1)
        return min(Fraction(1), Fraction(exact_us(self.retention_s), horizon_us))

    @property
    def share(self) -> float:
        """The share of the horizon that is covered, 0 to 1."""
        return float(self.exact_share)

    @property
    def open_s(self) -> float:
        """Seconds at the end of the horizon in which a retry would be executed again."""
        return seconds(max(0, exact_us(self.horizon_s) - exact_us(self.retention_s)))

    @property
    def open_share(self) -> float:
        """The share of the horizon that is left open, 0 to 1."""
        return float(1 - self.exact_share)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left open."""
        return self.exact_share == 1

    @property
    def percent(self) -> str:
        """The share that is covered, to three digits: "33.3 %"."""
        return percent(self.exact_share)

    @property
    def open_percent(self) -> str:
        """The share that is left open, to three digits: "96.7 %"."""
        return percent(1 - self.exact_share)

    def __str__(self) -> str:
        """Return "24 h of 720 h = 3.33 %, leaving 696 h = 96.7 % open", in one unit."""
        kept, asked, left = self.retention_s, self.horizon_s, self.open_s
        unit = common_unit((kept, asked, left))
        text = f"{format_duration(kept, unit)} of {format_duration(asked, unit)} = {self.percent}"
        if self.is_complete:
            return text
        return f"{text}, leaving {format_duration(left, unit)} = {self.open_percent} open"


def coverage(retention_s: float, horizon_s: float) -> Coverage:
    """Return how much of a horizon a retention covers, both in seconds; raises PolicyError."""
    return Coverage(retention_s, horizon_s)


def percent(share: Fraction) -> str:
    """Return a share as text, to three digits.

    Never "100 %" or "0 %" for what is only nearly so: that would hide the rest.
    """
    if share == 0:
        return "0 %"
    if share == 1:
        return "100 %"
    text = three_digits(share * 100)
    if Fraction(text) >= 100:
        return "> 99.9 %"
    return "< 0.01 %" if share < Fraction(1, 10_000) else f"{text} %"


def three_digits(value: Fraction) -> str:
    """Return a number to three significant digits, half to even, without an exponent."""
    with localcontext() as context:
        # Enough that the division itself does not round a tie away.
        context.prec = 50
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        if not exact:
            return "0"
        places = DIGITS - 1 - exact.adjusted()
        rounded = exact.quantize(Decimal(1).scaleb(-max(places, 0)), rounding=ROUND_HALF_EVEN)
        if rounded.adjusted() != exact.adjusted() and places > 0:
            # 9.996 becomes 10.00, which has one digit too many.
            rounded = rounded.quantize(Decimal(1).scaleb(1 - places), rounding=ROUND_HALF_EVEN)
    return f"{rounded:f}"
