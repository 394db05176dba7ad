"""Checks of answers of other kinds, on paths that the user names: empty, redirect, declined,
failing, binary, streamed, large. What was executed once is not executed again, whatever it said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replayfloor.conform.effects import Seen, Wait
from replayfloor.conform.facts import (
    UNKNOWN,
    Fate,
    Trial,
    effects_of,
    facts_of,
    fate,
    more,
    operation,
    pair,
    send_one,
)
from replayfloor.conform.target import Kind
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

LARGE_BYTES: Final = 1 << 20
"""What counts as large: the limit of many stores (1 MiB)."""

PATIENCE_S: Final = 0.5
TRIES: Final = 3
"""How often, and how far apart, a failed operation is tried again until its key is stuck."""

BUSY: Final = frozenset({409, 423, 429})
Fits = Callable[[Seen], bool]


def replayed(kind: Kind, fits: Fits) -> Callable[[Trial], Flow[Outcome]]:
    """Return a check that an answer of a kind is replayed, or at least not executed again."""

    def check(trial: Trial) -> Flow[Outcome]:
        path = trial.target.paths.get(kind)
        if path is None:
            return not_applicable(f"no path of that kind is named (--path {kind}=…)")
        facts = yield from facts_of(trial, path)
        one = yield from operation(trial.target)
        both = yield from pair(one, one.sending(path=path), one.sending(path=path))
        if both.first.failure or both.first.status >= 500:
            return failed(f"the first answer is broken: {both.first}")
        if not fits(both.first):
            size = len(both.first.body)
            return not_applicable(f"{path} is answered {both.first} with {size} bytes")
        return _judge(fate(facts, both), both.first, both.second)

    return check


def _judge(became: Fate, first: Seen, second: Seen) -> Outcome:
    match became:
        case Fate.REPLAYED:
            return passed(f"{first} with {len(first.body)} bytes, and the same again")
        case Fate.REFUSED if second.status == 409 and b"problem" in _media_type(second):
            return passed(f"{first}; the retry is told that it was executed ({second})")
        case Fate.UNKNOWN:
            return not_applicable(UNKNOWN)
        case _:
            return failed(f"{first}; the retry is {became} ({second})")


def _media_type(seen: Seen) -> bytes:
    return seen.first(b"content-type") or b""


def after_failure(trial: Trial) -> Flow[Outcome]:
    """A handler that fails: the key is free again, or the failure is its answer."""
    path = trial.target.paths.get(Kind.FAILING)
    if path is None:
        return not_applicable(f"no path of that kind is named (--path {Kind.FAILING}=…)")
    one = yield from operation(trial.target)
    before = yield from effects_of(one)
    first = yield from send_one(one.sending(path=path))
    if first.good or first.refused:
        return not_applicable(f"{path} does not fail ({first})")
    last = first
    for _ in range(TRIES):
        last = yield from send_one(one.sending(path=path))
        if not last.failure and last.status not in BUSY:
            break
        yield from Wait(PATIENCE_S)
    if last.failure or last.status in BUSY:
        return failed(f"after {first} the key stays blocked ({last})")
    if (more(before, (yield from effects_of(one))) or 0) > 1:
        return noted(f"{first} frees the key: the retry is executed again ({last})")
    return passed(f"{first}, then {last}")


def _is_empty(seen: Seen) -> bool:
    return seen.good and not seen.body


def _is_redirect(seen: Seen) -> bool:
    return 300 <= seen.status < 400


def _is_declined(seen: Seen) -> bool:
    return seen.refused


def _is_binary(seen: Seen) -> bool:
    try:
        seen.body.decode()
    except UnicodeDecodeError:
        return seen.good
    return False


def _is_streamed(seen: Seen) -> bool:
    return seen.good and seen.first(b"content-length") is None and bool(seen.body)


def _is_large(seen: Seen) -> bool:
    return seen.good and len(seen.body) > LARGE_BYTES


CHECKS: Final = (
    Check(
        "B-19",
        "an answer without a body is replayed",
        Level.SHOULD,
        replayed(Kind.EMPTY, _is_empty),
        ("E-2",),
    ),
    Check(
        "B-18",
        "a redirect is replayed",
        Level.SHOULD,
        replayed(Kind.REDIRECT, _is_redirect),
        ("E-2", "A4"),
    ),
    Check(
        "A4",
        "a final 4xx is replayed",
        Level.SHOULD,
        replayed(Kind.DECLINED, _is_declined),
        ("E-2", "B-18"),
    ),
    Check(
        "B-23",
        "bytes that are no text are replayed",
        Level.SHOULD,
        replayed(Kind.BINARY, _is_binary),
        ("E-2",),
    ),
    Check(
        "B-38",
        "a streamed answer arrives, and is replayed",
        Level.SHOULD,
        replayed(Kind.STREAM, _is_streamed),
        ("E-2", "A15"),
    ),
    Check(
        "B-24",
        "a large answer is not executed again",
        Level.PRACTICE,
        replayed(Kind.LARGE, _is_large),
        ("A15",),
    ),
    Check("B-08", "a failure does not block its key", Level.PRACTICE, after_failure, ("H-6",)),
)
