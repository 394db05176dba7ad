"""What the middlewares take from a request besides its body. Pure."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from replayfloor.core.errors import UsageError

KEY_HEADER = b"idempotency-key"

FIRST_SENT_HEADER = b"repeatability-first-sent"
"""When the sender made its first attempt (OASIS Repeatable Requests 1.0, 3.3)."""


def first_sent_ms(value: bytes | None) -> int | None:
    """Return the time of a first attempt in ms since 1970, or None if none can be read.

    The value is an HTTP-date (RFC 9110, 5.6.7). One that is malformed says nothing, and so refuses
    nothing either: the key alone decides then.
    """
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value.decode("ascii"))
        # "-0000" is UTC of an unknown zone (RFC 5322, 3.3), and comes without one.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return None


def owner(named: object) -> str:
    """Return who a key belongs to, as `principal` named it. Raises UsageError.

    A lookup that finds nobody often returns None, against its annotation. Taken as it is, all such
    callers would share one owner and see each other's answers.
    """
    if not isinstance(named, str):
        raise UsageError(
            f"principal returned {named!r} for a request; it must name the owner as a string "
            "(refuse unknown callers before this middleware, or pass principal=None)"
        )
    return named


def below(root: str, path: str) -> str:
    """Return a path without the root that it begins with, if it does; both are decoded."""
    return path.removeprefix(root) if root and path.startswith(root + "/") else path
