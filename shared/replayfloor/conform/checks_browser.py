"""Checks of pages of another origin: they may send a key, and may read what comes back."""

from __future__ import annotations

from typing import Final

from replayfloor.conform.effects import Seen, Sending
from replayfloor.conform.facts import MARKS, Trial, marked, operation, send_one
from replayfloor.conform.target import FIELD
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    noted,
    passed,
)
from replayfloor.core.effects import Flow
from replayfloor.core.message import Headers

ALLOWED: Final = b"access-control-allow-origin"
NO_ORIGIN: Final = "no origin of a page is named (--origin)"
NOT_OPEN: Final = "pages of that origin may not read its answers"


def preflight(trial: Trial) -> Flow[Outcome]:
    """What a browser asks before it sends a key."""
    origin = trial.target.origin
    if not origin:
        return not_applicable(NO_ORIGIN)
    one = yield from operation(trial.target)
    first = yield from send_one(one.sending(more=_from(origin)))
    if not first.all(ALLOWED):
        return not_applicable(NOT_OPEN)
    asked: Headers = (
        *_from(origin),
        (b"access-control-request-method", trial.target.method.encode()),
        (b"access-control-request-headers", FIELD.lower()),
    )
    seen = yield from send_one(Sending("OPTIONS", one.sending().path, asked, b""))
    allowed = _words(seen, b"access-control-allow-headers")
    if 200 <= seen.status < 300 and {FIELD.lower(), b"*"} & allowed:
        return passed("the preflight allows the key")
    return failed(f"the preflight ({seen}) does not allow the key")


def readable(trial: Trial) -> Flow[Outcome]:
    """Whether a page can read replays and refusals."""
    origin = trial.target.origin
    if not origin:
        return not_applicable(NO_ORIGIN)
    one = yield from operation(trial.target)
    page = _from(origin)
    first = yield from send_one(one.sending(more=page))
    if not first.all(ALLOWED):
        return not_applicable(NOT_OPEN)
    replay = yield from send_one(one.sending(more=page))
    others = {
        "a replay": replay,
        "another payload": (yield from send_one(one.sending(more=page, body=one.other()))),
        "a malformed key": (yield from send_one(one.sending(more=page, keys=(b'"a',)))),
    }
    hidden = [f"{what} ({seen})" for what, seen in others.items() if not seen.all(ALLOWED)]
    if hidden:
        return failed(f"a page cannot read: {', '.join(hidden)}")
    exposed = _words(first, b"access-control-expose-headers")
    if marked(replay) and not exposed & {*MARKS, b"*"}:
        return noted("a page can read replays and refusals, but not the mark of a replay")
    return passed("a page can read replays and refusals")


def _from(origin: bytes) -> Headers:
    return ((b"origin", origin),)


def _words(seen: Seen, name: bytes) -> set[bytes]:
    return {word.strip().lower() for line in seen.all(name) for word in line.split(b",")}


CHECKS: Final = (
    Check("B-35", "a page may send a key", Level.PRACTICE, preflight),
    Check("B-36", "a page can read refusals and replays", Level.PRACTICE, readable),
)
