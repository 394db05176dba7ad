"""Checks of duplicates that come at once: one is executed, and the others are told what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from replayfloor.conform.effects import Seen
from replayfloor.conform.facts import (
    UNKNOWN,
    Trial,
    different,
    effects_of,
    executions,
    marked,
    more,
    operation,
    send,
    send_one,
)
from replayfloor.conform.target import Kind
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    passed,
)
from replayfloor.core.effects import Flow

ROUNDS: Final = 3
"""How many bursts: a race that is lost now and then shows within a few."""

APART_S: Final = 0.005
"""How far apart a proxy's two copies are."""

SECONDS: Final = re.compile(rb"[1-9][0-9]*")
NOBODY_REFUSED: Final = "no duplicate was refused: all waited, or came too late (see --path slow=)"


@dataclass(frozen=True, slots=True)
class Burst:
    """One key, sent at once; `executed` is the count's difference, None if not told."""

    answers: tuple[Seen, ...]
    executed: int | None
    later: Seen


def burst(trial: Trial, path: str) -> Flow[Burst]:
    """Send one request many times at once, and once more when all have been answered."""
    one = yield from operation(trial.target)
    before = yield from effects_of(one)
    each = one.sending(path=path)
    answers = yield from send(*[each] * trial.target.concurrency)
    later = yield from send_one(each)
    return Burst(answers, more(before, (yield from effects_of(one))), later)


def _bursts(trial: Trial) -> Flow[list[Burst]]:
    # On a slow path all meet; on a fast one some come at the very moment at which the first ends.
    slow = trial.target.paths.get(Kind.SLOW)
    found: list[Burst] = []
    for path in [*([slow] if slow else []), *[trial.target.path] * ROUNDS]:
        found += [(yield from burst(trial, path))]
    return found


def one_execution(trial: Trial) -> Flow[Outcome]:
    """How many of them are executed."""
    size = trial.target.concurrency
    for each in (yield from _bursts(trial)):
        ran = each.executed
        if ran is None:
            ran = executions(trial.facts, [*each.answers, each.later])
        if ran is None:
            return not_applicable(UNKNOWN)
        if ran != 1:
            return failed(f"of {size} at once {ran} were executed")
    return passed(f"of {size} at once one was executed, each time")


def sent_twice(trial: Trial) -> Flow[Outcome]:
    """One request that something on the way sends twice."""
    one = yield from operation(trial.target)
    before = yield from effects_of(one)
    path = trial.target.slow_path()
    answers = yield from send(one.sending(path=path), one.sending(path=path, after_s=APART_S))
    ran = more(before, (yield from effects_of(one)))
    ran = executions(trial.facts, answers) if ran is None else ran
    if ran is None:
        return not_applicable(UNKNOWN)
    told = " and ".join(map(str, answers))
    if ran == 1 and any(seen.good for seen in answers):
        return passed(f"executed once, answered {told}")
    return failed(f"executed {ran} times, answered {told}")


def losers(trial: Trial) -> Flow[Outcome]:
    """What the others are told: 409, or the first answer if they waited."""
    for each in (yield from _bursts(trial)):
        others = [seen for seen in each.answers if not seen.good]
        wrong = sorted({str(seen) for seen in others if seen.status != 409})
        if wrong:
            return failed(f"duplicates in flight are answered {', '.join(wrong)}")
        if not each.later.good:
            return failed(f"after all were answered, a retry gets {each.later}")
        if different(seen for seen in (*each.answers, each.later) if seen.good) > 1:
            return failed("duplicates get different answers")
    return passed("duplicates get 409, or the first answer")


def no_server_error(trial: Trial) -> Flow[Outcome]:
    """Whether losing a race is a server error."""
    for each in (yield from _bursts(trial)):
        wrong = [str(seen) for seen in each.answers if seen.status >= 500 or seen.failure]
        if wrong:
            return failed(f"a duplicate is answered {wrong[0]}")
    return passed("no duplicate is a server error")


def retry_after(trial: Trial) -> Flow[Outcome]:
    """When to come back."""
    found = [seen for each in (yield from _bursts(trial)) for seen in each.answers]
    conflicts = [seen for seen in found if seen.status in (409, 423, 429)]
    if not conflicts:
        return not_applicable(NOBODY_REFUSED)
    for seen in conflicts:
        told = seen.all(b"retry-after")
        if len(told) != 1 or not SECONDS.fullmatch(told[0]):
            shown = b", ".join(told).decode("latin-1") or "nothing"
            return failed(f"{seen} with Retry-After: {shown}")
    return passed(f"Retry-After: {(conflicts[0].first(b'retry-after') or b'').decode()}")


def refused_unmarked(trial: Trial) -> Flow[Outcome]:
    """Whether a conflict looks like a replay."""
    each = yield from burst(trial, trial.target.slow_path())
    conflicts = [seen for seen in each.answers if not seen.good]
    if not conflicts:
        return not_applicable(NOBODY_REFUSED)
    if any(marked(seen) for seen in conflicts):
        return failed("a duplicate that is refused is marked as a replay")
    return passed("a refusal is not marked as a replay")


CHECKS: Final = (
    Check("B-01", "of duplicates at once one is executed", Level.SHOULD, one_execution, ("R-6",)),
    Check("B-51", "a request that a proxy sends twice runs once", Level.PRACTICE, sent_twice),
    Check("E-3", "a duplicate in flight gets 409, or waits", Level.SHOULD, losers, ("H-3", "A14")),
    Check("B-09", "no duplicate is a server error", Level.PRACTICE, no_server_error),
    Check("RA-1", "a conflict says when to come back", Level.PRACTICE, retry_after, ("A6",)),
    Check("H9-6", "a conflict does not look like a replay", Level.PRACTICE, refused_unmarked),
)
