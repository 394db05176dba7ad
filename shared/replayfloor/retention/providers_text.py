"""Lengths of time as the catalogue writes them, and for people. Text only."""

from __future__ import annotations

import re
from typing import Final

from replayfloor.retention.durations import format_duration, parse_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.terms import UNKNOWN

UNLIMITED: Final = "unlimited"
"""As the value of a duration: the source says that there is no end."""

_PARTS: Final = re.compile(
    r"P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII
)


def length_s(text: str) -> float | None:
    """Return the seconds of a value: None for "unknown", infinity for "unlimited"."""
    if text == UNKNOWN:
        return None
    return float("inf") if text == UNLIMITED else parse_duration(text)


def shown(value: str) -> str:
    """Return a value for people: "75 h 35 min 5 s" for "PT75H35M5S"; what is no length, as it is.

    The units are those of the source: "72 h" and "3 d" may be counted differently there.
    """
    if match := _PARTS.fullmatch(value):
        parts = zip(match.groups(), ("d", "h", "min", "s"), strict=True)
        return " ".join(f"{number} {unit}" for number, unit in parts if number)
    try:
        return format_duration(parse_duration(value))
    except PolicyError:
        return value
