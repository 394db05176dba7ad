"""What a server has said about keys: that it knows them, and for how long it keeps them.

A server that ignores the key executes every retry. Whether it does shows only in its answers: the
lifetime it advertises, a replayed answer, or one of our own problems. What was seen is remembered
by the transport, from one operation to the next (`support_memory.py`). Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from replayfloor.client.profile_answers import GENERIC, problem_of
from replayfloor.client.profile_answers import LIFETIME_FIELD as LIFETIME_FIELD
from replayfloor.client.profiles import NS_PER_S, RETENTION_MAX_S, Profile, send_window_s
from replayfloor.core.effects import Effect
from replayfloor.core.message import Response, get_first
from replayfloor.core.values import frozen

RETENTION_SEEN_S: Final = 300.0
"""Presumed of a server that has shown that it knows keys, and not for how long: the shortest
window that any known provider publishes (Amazon SQS FIFO queues, five minutes)."""

_LIFETIME_DIGITS_MAX: Final = 10

UNPROFILED: Final = Profile(name="unprofiled", retention_s=RETENTION_SEEN_S)
"""Stands for a provider of which nothing is known, with the header of the IETF draft."""


class Learning(Enum):
    """What an advertised lifetime may change."""

    SHORTEN = "shorten"
    """The profile is an upper bound: its provider publishes a number, and headers lie."""
    REPLACE = "replace"
    """The server knows best: it is one of ours."""
    REQUIRE = "require"
    """Without a profile nothing is known of a server before it says so."""


@frozen
class Support:
    """The server knows keys, and keeps them for `retention_s`; None if it did not say."""

    retention_s: float | None = None


@frozen
class RecallSupport(Effect["Support | None"]):
    """Return what was seen at a place (see `place_of`), or None."""

    place: str


@frozen
class NoteSupport(Effect[None]):
    """Remember what was seen at a place (see `place_of`)."""

    place: str
    support: Support


def learning_of(profile: Profile | None) -> Learning:
    """Return what an advertised lifetime may change under a profile."""
    if profile is None:
        return Learning.REQUIRE
    return Learning.REPLACE if profile.learns_lifetime else Learning.SHORTEN


def place_of(learning: Learning, origin: str, path: str) -> str:
    """Return where what an answer shows holds.

    A lifetime holds for the server. That it looks at keys at all was shown at one path: behind one
    address there may be others that know nothing of keys.
    """
    return f"{origin}{path}" if learning is Learning.REQUIRE else origin


def read_support(response: Response) -> Support | None:
    """Return what an answer shows, or None if it shows nothing."""
    if not response.body and GENERIC.telling.isdisjoint([name for name, _ in response.headers]):
        return None  # as nearly all
    lifetime_s = _lifetime_s(get_first(response.headers, LIFETIME_FIELD))
    if lifetime_s is not None:
        return Support(lifetime_s)
    if GENERIC.replayed(response.headers) or problem_of(response) is not None:
        return Support()
    return None


def retention_after(learning: Learning, known_s: float, support: Support | None) -> float:
    """Return the retention to go by; 0 if none is known.

    `known_s` is the one gone by until now, 0 if there is none.
    """
    if support is None:
        return known_s
    told_s = support.retention_s
    match learning:
        case Learning.SHORTEN:
            return known_s if told_s is None else min(known_s, told_s)
        case Learning.REPLACE:
            return known_s if told_s is None else told_s
        case Learning.REQUIRE:
            return known_s or RETENTION_SEEN_S if told_s is None else told_s


def deadline_after(profile: Profile, retention_s: float, first_attempt_at_ns: int) -> int:
    """Return the send deadline of a retention, in ns since 1970, with the profile's margin.

    Without a retention it is far away: what then holds a request back is that it may have been
    sent.
    """
    if retention_s <= 0:
        retention_s = RETENTION_MAX_S
    return first_attempt_at_ns + int(send_window_s(retention_s, profile.margin_s) * NS_PER_S)


def _lifetime_s(value: bytes | None) -> float | None:
    """Return the seconds of an Idempotency-Key-Lifetime; None for one that says nothing usable."""
    if value is None:
        return None
    text = value.strip(b" \t")
    if not text.isdigit() or len(text) > _LIFETIME_DIGITS_MAX:
        return None
    seconds = float(text)
    return seconds if 0 < seconds <= RETENTION_MAX_S else None
