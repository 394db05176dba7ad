"""Lengths of time: from text, to text, and exact in between. No clock and no calendar here.

Seconds are the unit everywhere, as float. Arithmetic is done on whole microseconds: a float holds
every one of them up to ten years, so that sums and shares come out exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from typing import Final

from replayfloor.retention.errors import PolicyError

US_PER_S: Final = 1_000_000

DURATION_MAX_S: Final = 10 * 366 * 86_400.0
"""Ten years. Nothing is retried for so long: a larger number is a mistake of unit."""

WORDS_FROM: Final = 999
"""A larger count of one unit is hard to read at a glance."""


class Unit(Enum):
    """A unit of time, by its symbol. The largest comes first."""

    DAY = "d"
    HOUR = "h"
    MINUTE = "min"
    SECOND = "s"
    MILLISECOND = "ms"

    @property
    def us(self) -> int:
        """How many microseconds it is."""
        return _UNIT_US[self.value]


_UNIT_US: Final = {
    "w": 7 * 86_400 * US_PER_S,
    "d": 86_400 * US_PER_S,
    "h": 3600 * US_PER_S,
    "min": 60 * US_PER_S,
    "m": 60 * US_PER_S,
    "s": US_PER_S,
    "ms": 1000,
}
_WORDS: Final = {
    "week": "w", "day": "d", "hour": "h", "hr": "h", "minute": "min", "mins": "min",
    "sec": "s", "second": "s", "msec": "ms", "millisecond": "ms",
}  # fmt: skip

_NUMBER: Final = r"\d{1,15}(?:[.,]\d{1,15})?"
_PART: Final = re.compile(rf"({_NUMBER})\s?(ms|min|[wdhms])\s?", re.ASCII)
_PLAIN: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_ISO: Final = re.compile(
    rf"P(?=[\dT])(?:(?P<w>{_NUMBER})W|(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=\d)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?)",
    re.ASCII,
)
_ISO_CALENDAR: Final = re.compile(r"P[^T]*[\d.,]+[YM].*", re.ASCII)
_LONG: Final = re.compile(r"\d{16,}")
_LOOSE: Final = re.compile(rf"({_NUMBER})\s*([^\W\d_]+)", re.ASCII)
_EXAMPLES: Final = 'write it as "84h", "30d", "5m", "500ms" or, in ISO 8601, "P3D" or "PT84H"'


def parse_duration(text: str) -> float:
    """Return the seconds that a text means: "84h", "30 d", "5m", "500ms", "P3D", "P1DT12H".

    Units are w, d, h, min or m, s, ms, and sums of them, the largest first ("1 d 12 h"); of ISO
    8601, everything but years and months, which have no fixed length.

    Raises PolicyError: also for what is negative, finer than a microsecond or longer than
    DURATION_MAX_S.
    """
    stripped = text.strip()
    if _PLAIN.fullmatch(stripped):
        parts = [(match[1], match[2]) for match in _PART.finditer(stripped)]
        sizes = [_UNIT_US[unit] for _, unit in parts]
        if sizes != sorted(set(sizes), reverse=True):
            raise _refused(text, "its units are not in order", "write the largest first, each once")
    elif match := _ISO.fullmatch(stripped):
        parts = [(number, unit) for unit, number in match.groupdict().items() if number]
    else:
        raise _refused(text, *_why_not(stripped))
    if not all(number.isdigit() for number, _ in parts[:-1]):
        raise _refused(text, "only the last number may have a fraction")
    return seconds(to_us(sum(_exact(number) * _UNIT_US[unit] for number, unit in parts), text))


def _exact(number: str) -> Fraction:
    return Fraction(number.replace(",", "."))


def _refused(text: str, reason: str, advice: str = _EXAMPLES) -> PolicyError:
    return PolicyError(f"{text!r} is no duration: {reason}", advice=advice)


def _why_not(text: str) -> tuple[str, str]:
    """Return why a text is no duration, and what to write instead."""
    if not text:
        return "it is empty", _EXAMPLES
    if text.startswith(("-", "\N{MINUS SIGN}")):
        return "it is negative", _EXAMPLES
    if _ISO_CALENDAR.fullmatch(text.upper()):
        return (
            "years and months have no fixed length",
            'count them in days ("P30D"), and minutes after a T ("PT5M")',
        )
    if _LONG.search(text):
        return "the number is too long", _EXAMPLES
    if _ISO.fullmatch(text.upper()):
        return "ISO 8601 has capital letters", f'write "{text.upper()}"'
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return "it has no unit", f'write "{text}s" if seconds are meant'
    if match := _LOOSE.fullmatch(text):
        return _why_no_unit(match[1], match[2])
    return "it is not understood", _EXAMPLES


def _why_no_unit(number: str, unit: str) -> tuple[str, str]:
    if unit == "M":
        return "M may be minutes or months", f'write "{number}min", or months in days'
    lower = unit.lower()
    if lower in ("y", "yr", "year", "years", "mo", "mon", "month", "months"):
        return "years and months have no fixed length", 'count them in days, as in "30d"'
    known = lower if lower in _UNIT_US else _WORDS.get(lower) or _WORDS.get(lower.rstrip("s"))
    if known:
        return f"the unit is {known!r}", f'write "{number}{known}"'
    return f"{unit!r} is no unit of time", _EXAMPLES


def exact_us(length: timedelta | float, name: str = "a duration") -> int:
    """Return a length, in seconds or as timedelta, in whole microseconds (rounded to the nearest).

    Raises PolicyError for what is negative, not finite or longer than DURATION_MAX_S.
    """
    if isinstance(length, timedelta):
        return to_us(Fraction(length // timedelta(microseconds=1)), name)
    if isinstance(length, bool) or not math.isfinite(length):
        raise PolicyError(f"{name} is a number of seconds, not {length!r}", advice=_EXAMPLES)
    return to_us(Fraction(round(Fraction(length) * US_PER_S)), name)


def to_us(us: Fraction | int, name: str) -> int:
    """Return a number of microseconds if it is a duration of ours; raises PolicyError."""
    if us < 0:
        raise PolicyError(f"{name} is negative", advice="a length of time is at least 0")
    if us > DURATION_MAX_S * US_PER_S:
        raise PolicyError(
            f"{name} is longer than ten years, which looks like a mistake of unit",
            advice="nothing is retried for so long",
        )
    if us.denominator != 1:
        raise PolicyError(f"{name} is finer than a microsecond", advice="round it")
    return int(us)


def seconds(us: int) -> float:
    """Return microseconds as seconds; `exact_us` gives back the same number."""
    return us / US_PER_S


def format_duration(seconds: float, unit: Unit | None = None) -> str:
    """Return a length as text, exactly (to the microsecond): "84 h", "35 d", "12 min", "1.5 s".

    The unit is the largest in which it is a whole number, unless it is given. What
    `parse_duration` makes of the text is the same length. Raises PolicyError as `exact_us` does.
    """
    us = exact_us(seconds)
    unit = unit or _unit_of(us)
    whole, rest = divmod(us, unit.us)
    if not rest:
        return f"{whole} {unit.value}"
    if US_PER_S % unit.us:
        # Decimals of a day, hour or minute may never end, so the given unit cannot be had.
        return format_duration(seconds)
    digits = f"{rest:0{len(str(unit.us)) - 1}d}".rstrip("0")
    return f"{whole}.{digits} {unit.value}"


def _unit_of(us: int) -> Unit:
    if us % US_PER_S:
        return Unit.MILLISECOND if us < US_PER_S else Unit.SECOND
    return next((unit for unit in Unit if us >= unit.us and us % unit.us == 0), Unit.SECOND)


def in_words(seconds: float) -> str:
    """Return a length as `format_duration` does, or in several units where that reads better.

    "84 h", but "23 h 31 min 12 s" instead of "84672 s". `parse_duration` takes both.
    """
    us = exact_us(seconds)
    if us // _unit_of(us).us <= WORDS_FROM or us % US_PER_S:
        return format_duration(seconds)
    parts: list[str] = []
    for unit in Unit:
        count, us = divmod(us, unit.us)
        if count:
            parts.append(f"{count} {unit.value}")
    return " ".join(parts)


def common_unit(lengths_s: Iterable[float]) -> Unit:
    """Return the largest unit in which every one of these lengths is a whole number.

    Seconds, if there is none. 0 fits each unit.
    """
    every = [exact_us(length_s) for length_s in lengths_s]
    if not any(every):
        return Unit.SECOND
    return next((unit for unit in Unit if all(us % unit.us == 0 for us in every)), Unit.SECOND)
