"""Checks of a retry after completion: the same answer, whole, and not a second execution."""

from __future__ import annotations

from collections import Counter
from typing import Final

from replayfloor.conform.effects import Seen, Wait
from replayfloor.conform.facts import (
    UNKNOWN,
    Fate,
    Trial,
    fate,
    marked,
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

OF_THE_RESULT: Final = (
    b"content-type",
    b"location",
    b"content-location",
    b"etag",
    b"last-modified",
    b"link",
    b"content-language",
    b"content-disposition",
)
"""Headers that say something of the result, and so belong to a replay."""

OF_ONE_MESSAGE: Final = frozenset(
    {b"date", b"age", b"connection", b"keep-alive", b"transfer-encoding", b"content-length"}
    | {b"set-cookie", b"server", b"via"}
)
CLOCK_S: Final = 1.2
"""Longer than the resolution of a Date."""

ROUNDS: Final = 8
"""How often a retry follows at once: what is put away after the answer is late now and then."""


def again(trial: Trial) -> Flow[Outcome]:
    """A retry after completion."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending())
    match fate(trial.facts, both):
        case Fate.REPLAYED:
            return passed(f"{both.first}, and the same {len(both.second.body)} bytes again")
        case Fate.UNKNOWN:
            return not_applicable(UNKNOWN)
        case became:
            return failed(f"the retry is {became} ({both.first}, then {both.second})")


def mark(trial: Trial) -> Flow[Outcome]:
    """The mark of a replay, and of nothing else."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending())
    if marked(both.first):
        return failed("a first answer is marked as a replay")
    if marked(both.second):
        return passed("replays are marked, first answers are not")
    return noted("replays are not marked: a client cannot tell them")


def headers(trial: Trial) -> Flow[Outcome]:
    """Headers that say something of the result."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending())
    there = [name for name in OF_THE_RESULT if both.first.all(name)]
    if not both.second.good:
        return failed(f"the retry is answered {both.second}")
    lost = [name for name in there if both.second.first(name) != both.first.first(name)]
    if lost:
        return failed(f"lost or changed: {_names(lost)}")
    return passed(f"kept: {_names(there)}") if there else not_applicable("there are none")


def lines(trial: Trial) -> Flow[Outcome]:
    """Headers that come more than once."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending())
    often = {name for name, count in Counter(_fields(both.first)).items() if count > 1}
    if not often:
        return not_applicable("no header of the first answer comes twice")
    changed = [name for name in sorted(often) if both.first.all(name) != both.second.all(name)]
    if changed:
        return failed(f"lines lost, joined or in another order: {_names(changed)}")
    return passed(f"every line is kept: {_names(sorted(often))}")


def _fields(seen: Seen) -> list[bytes]:
    return [name for name, _ in seen.headers if name not in OF_ONE_MESSAGE]


def cookies(trial: Trial) -> Flow[Outcome]:
    """Cookies, which belong to the one who got the first answer."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending())
    if not both.first.all(b"set-cookie"):
        return not_applicable("the first answer sets no cookie")
    if set(both.first.all(b"set-cookie")) & set(both.second.all(b"set-cookie")):
        return noted("a replay sets the cookies of the first answer")
    return passed("a replay does not set the first answer's cookies")


def date(trial: Trial) -> Flow[Outcome]:
    """The Date, which is that of the message."""
    one = yield from operation(trial.target)
    first = yield from send_one(one.sending())
    yield from Wait(CLOCK_S)
    second = yield from send_one(one.sending())
    if not first.all(b"date"):
        return not_applicable("answers have no Date")
    if len(second.all(b"date")) > 1:
        return failed("a replay has more than one Date")
    if first.first(b"date") == second.first(b"date"):
        return noted("a replay has the Date of the first answer")
    return passed("a replay has a Date of its own")


def at_once(trial: Trial) -> Flow[Outcome]:
    """A retry that follows at once, on the same connection."""
    named = [path for kind, path in trial.target.paths.items() if kind is not Kind.SLOW]
    for path in (trial.target.path, *named):
        for _ in range(ROUNDS if path == trial.target.path else 2):
            one = yield from operation(trial.target)
            both = yield from pair(one, one.sending(path=path), one.sending(path=path))
            busy = both.second.status in (409, 423, 429, 503) or bool(both.second.failure)
            if busy and both.first.good and not _kept_no_answer(both.second):
                return failed(f"{path}: {both.first}, and at once {both.second}")
    return passed("a retry that follows at once is answered like any other")


def _kept_no_answer(second: Seen) -> bool:
    # A refusal that does not ask to come back says that there is nothing to wait for.
    return second.status == 409 and second.first(b"retry-after") is None and b"{" in second.body


def _names(fields: list[bytes]) -> str:
    return ", ".join(name.decode("latin-1") for name in fields)


CHECKS: Final = (
    Check("E-2", "a retry gets the first answer", Level.SHOULD, again, ("B-18",)),
    Check("A5", "replays are marked, and nothing else is", Level.PRACTICE, mark),
    Check("B-20", "a replay keeps the headers of the result", Level.SHOULD, headers, ("A16",)),
    Check("B-21", "a replay keeps every line of a header", Level.SHOULD, lines, ("A16",)),
    Check("A16", "a replay sets no cookies", Level.PRACTICE, cookies, ("H9-9",)),
    Check("H9-8", "a replay has the Date at which it is sent", Level.MUST, date),
    Check("B-22", "a retry may follow at once", Level.PRACTICE, at_once, ("H9-9",)),
)
