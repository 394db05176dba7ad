"""What can be told from outside: whether a second answer was a replay or a second execution.

A count of effects decides, if the server tells one. Else answers do: where two operations are
answered differently, equal answers are one execution; where replays are marked, an answer without
the mark is an execution. Where neither holds nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from replayfloor.conform.effects import Count, Exchange, FreshName, Seen, Sending
from replayfloor.conform.target import Operation, Target
from replayfloor.conform.verdicts import CannotRun
from replayfloor.core.effects import Flow

MARKS: Final = (
    b"idempotent-replayed",
    b"idempotency-replayed",
    b"x-idempotent-replayed",
    b"x-idempotency-replayed",
    b"idempotency-replay",
    b"x-idempotency-cache-hit",
)
"""Headers in use that mark a replay; no text defines one."""

TELLING: Final = (b"location", b"etag")
UNKNOWN: Final = (
    "answers do not tell executions apart, and nothing marks a replay: tell where effects are "
    "counted (--count-url)"
)


class Fate(StrEnum):
    """What became of the second of two requests."""

    REPLAYED = "replayed"
    EXECUTED = "executed again"
    REFUSED = "refused"
    ALTERED = "answered differently, and not executed"
    BROKEN = "not answered completely"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out of a server before the checks.

    `telling`: two operations with equal requests are answered differently. `marks`: its replays
    carry a mark.
    """

    telling: bool
    marks: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """What a check is given."""

    target: Target
    facts: Facts


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests and what was seen; `executed` is the count's difference, None if not told."""

    first: Seen
    second: Seen
    executed: int | None


def marked(seen: Seen) -> bool:
    """Return whether an answer says that it is a replay."""
    return any((seen.first(name) or b"").strip().lower() in (b"true", b"1") for name in MARKS)


def alike(one: Seen, other: Seen) -> bool:
    """Return whether two answers tell of one execution; a header that is lost tells nothing."""
    named = ((one.first(name), other.first(name)) for name in TELLING)
    lost_or_equal = all(None in values or values[0] == values[1] for values in named)
    return one.status == other.status and one.body == other.body and lost_or_equal


def different(answers: Iterable[Seen]) -> int:
    """Return of how many executions these answers tell, at least."""
    kinds: list[Seen] = []
    for seen in answers:
        if not any(alike(seen, kind) for kind in kinds):
            kinds.append(seen)
    return len(kinds)


def send(*sendings: Sending) -> Flow[tuple[Seen, ...]]:
    """Send requests at once."""
    return (yield from Exchange(sendings))


def send_one(sending: Sending) -> Flow[Seen]:
    """Send one request."""
    (seen,) = yield from Exchange((sending,))
    return seen


def operation(target: Target) -> Flow[Operation]:
    """Begin an operation under a name of its own."""
    return Operation(target, (yield from FreshName()))


def effects_of(one: Operation) -> Flow[int | None]:
    """Return how many effects there are by now, if the server tells."""
    return (yield from Count(one.name)) if one.target.counted else None


def more(before: int | None, after: int | None) -> int | None:
    """Return the difference of two counts."""
    return None if before is None or after is None else after - before


def pair(one: Operation, first: Sending, second: Sending) -> Flow[Pair]:
    """Send one request after the other."""
    before = yield from effects_of(one)
    seen = yield from send_one(first)
    again = yield from send_one(second)
    return Pair(seen, again, more(before, (yield from effects_of(one))))


def fate(facts: Facts, both: Pair) -> Fate:
    """Return what became of the second request, as far as it can be told."""
    first, second = both.first, both.second
    if second.failure:
        return Fate.BROKEN
    if both.executed is not None and both.executed > 1:
        return Fate.EXECUTED
    same = alike(first, second)
    if same and not marked(second) and both.executed is None and not facts.telling:
        return Fate.EXECUTED if facts.marks else Fate.UNKNOWN
    if same or marked(second):
        return Fate.REPLAYED if same else Fate.ALTERED
    if second.status >= 400:
        return Fate.REFUSED
    return Fate.EXECUTED if both.executed is None else Fate.ALTERED


def executions(facts: Facts, answers: Sequence[Seen]) -> int | None:
    """Return how often one key was executed, deduced from its answers; None if they do not say."""
    good = [seen for seen in answers if seen.good]
    at_least = different(good)
    if at_least > 1 or facts.telling or not good:
        return at_least
    return sum(not marked(seen) for seen in good) if facts.marks else None


def find_facts(target: Target) -> Flow[Facts]:
    """Find out how this server's executions can be told apart.

    Raises CannotRun if the operation cannot be carried out as described.
    """
    one = yield from operation(target)
    both = yield from pair(one, one.sending(), one.sending())
    if not both.first.good:
        raise CannotRun(
            f"a first request is answered {both.first}: the checks need a request that succeeds "
            f"(is --body right? --header? --bare-keys?): {excerpt(both.first.body)}"
        )
    other = yield from operation(target)
    # The same name in the body, so that an answer that repeats the request tells nothing.
    unlike = yield from send_one(one.sending(keys=(other.key,)))
    return Facts(
        telling=unlike.good and not alike(unlike, both.first),
        marks=marked(both.second) and not marked(both.first),
    )


def facts_of(trial: Trial, path: str) -> Flow[Facts]:
    """Find out whether the answers of another path tell executions apart."""
    one = yield from operation(trial.target)
    other = yield from operation(trial.target)
    first = yield from send_one(one.sending(path=path))
    second = yield from send_one(one.sending(path=path, keys=(other.key,)))
    telling = not second.failure and not alike(first, second)
    return Facts(telling=telling, marks=trial.facts.marks)


def excerpt(body: bytes) -> str:
    """Return the beginning of a body for a person to read."""
    return body[:200].decode("utf-8", "replace")
