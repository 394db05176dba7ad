"""Times, shares and foreign text as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from replayfloor.client.tail.measure import Bound

NOTHING: Final = "-"
"""Stands where there is nothing to say."""

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_DAYS_FROM: Final = 48 * 3_600
"""Shorter times are told in hours, as providers tell them."""


def duration(ns: int) -> str:
    """Return a time in its two largest units, rounded down: a time is never told as longer."""
    if ns < _NS_PER_S:
        return f"{ns // _NS_PER_MS} ms" if ns >= _NS_PER_MS else "0 s"
    rest = ns // _NS_PER_S
    parts: list[str] = []
    for unit, seconds in _UNITS if rest >= _DAYS_FROM else _UNITS[1:]:
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def bound_text(bound: Bound | None, at_least: str = ">=") -> str:
    """Return a time, after `at_least` if it may become longer."""
    if bound is None:
        return NOTHING
    return f"{at_least} {duration(bound.ns)}" if bound.at_least else duration(bound.ns)


def share_text(share: float | None) -> str:
    """Return a share in per cent, with two or three digits."""
    if share is None:
        return NOTHING
    percent = share * 100
    if percent >= 100:
        return f"{percent:,.0f} %"
    if percent >= 1 or percent == 0:
        return f"{percent:.3g} %"
    return f"{percent:.2g} %" if percent >= 0.0001 else "< 0.0001 %"


def moment(ns: int | None) -> str:
    """Return a moment in UTC, to the second; ns since 1970."""
    if ns is None:
        return NOTHING
    # Not by a float, which does not hold every ns.
    told = _EPOCH + timedelta(seconds=ns // _NS_PER_S)
    return told.strftime("%Y-%m-%d %H:%M:%SZ")


def moment_ns(told: datetime) -> int:
    """Return the ns since 1970 of a moment; one without a zone is in UTC."""
    since = (told if told.tzinfo else told.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(microseconds=1) * 1000


def plain(text: str) -> str:
    """Escape every character that is not printable.

    An operation id comes from wherever the application takes it. Raw, an escape sequence in it
    would be obeyed by the terminal of whoever looks at it.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `2 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
