"""Lengths and lists as a person reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replayfloor.retention.durations import DURATION_MAX_S, in_words
from replayfloor.retention.storage import DAY_S

NAMES_MAX: Final = 5
"""So many are named; the others are counted."""


def length(seconds: float) -> str:
    """Return a length exactly; also one that is longer than any retention may be."""
    if seconds > DURATION_MAX_S:
        return f"{seconds / DAY_S:,.0f} d"
    return in_words(max(0.0, seconds))


def about(seconds: float) -> str:
    """Return a length without what does not matter: nobody needs milliseconds of hours."""
    return length(round(seconds) if seconds >= 1 else round(seconds, 3))


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - NAMES_MAX
    shown = ", ".join(names[:NAMES_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
