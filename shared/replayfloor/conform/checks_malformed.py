"""Checks of fields that carry no key: refused, and never executed as if there had been none.

Each is sent twice. A server that ignores such a field runs the request unprotected, while its
client believes that it may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replayfloor.conform.checks_keys import quoted
from replayfloor.conform.facts import UNKNOWN, Fate, Pair, Trial, fate, operation, pair
from replayfloor.conform.target import Operation
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    noted,
    passed,
    worst,
)
from replayfloor.core.effects import Flow

Field = tuple[str, tuple[bytes, ...]]
"""A name for people, and the values of the header lines."""

LONG: Final = 300
VERY_LONG: Final = 5000
"""Characters of keys: beyond what providers publish (255), and beyond any column's width."""


def _empty(_: Operation) -> Sequence[Field]:
    return (("an empty value", (b"",)), ('""', (b'""',)), ('" "', (b'" "',)))


def _malformed(one: Operation) -> Sequence[Field]:
    name = one.name.encode()
    return (
        ("an unterminated quote", (b'"' + name,)),
        ("a bad escape", (b'"' + name + rb"\n" + b'"',)),
        ("single quotes", (b"'" + name + b"'",)),
        ("text behind the String", (b'"' + name + b'" x',)),
        ("bytes", (b":YWJj:",)),
        ("a boolean", (b"?1",)),
        ("non-ASCII", (b'"caf\xc3\xa9-' + name + b'"',)),
    )


def _lines(one: Operation) -> Sequence[Field]:
    key = quoted(one)
    return (
        ("two equal lines", (key, key)),
        ("two lines", (key, b'"other-' + one.name.encode() + b'"')),
        ("a list", (key + b', "other"',)),
    )


def _long(one: Operation) -> Sequence[Field]:
    return tuple(
        (f"{size} characters", (b'"' + one.name.encode().ljust(size, b"x") + b'"',))
        for size in (LONG, VERY_LONG)
    )


def empty(trial: Trial) -> Flow[Outcome]:
    """Keys without a character."""
    return (yield from _refused(trial, _empty((yield from operation(trial.target)))))


def no_string(trial: Trial) -> Flow[Outcome]:
    """Values that are not Strings."""
    return (yield from _refused(trial, _malformed((yield from operation(trial.target)))))


def several(trial: Trial) -> Flow[Outcome]:
    """More than one key."""
    return (yield from _refused(trial, _lines((yield from operation(trial.target)))))


def unprotected(trial: Trial) -> Flow[Outcome]:
    """All of them: whatever is made of the field, it is not executed twice."""
    one = yield from operation(trial.target)
    outcomes: list[Outcome] = []
    for name, keys in (*_empty(one), *_malformed(one), *_lines(one)):
        both = yield from _twice(trial, keys)
        became = fate(trial.facts, both)
        if both.first.good and became is Fate.UNKNOWN:
            return not_applicable(UNKNOWN)
        ran_twice = both.first.good and became is Fate.EXECUTED
        outcomes.append(failed(f"{name} is executed twice") if ran_twice else passed(name))
    if all(each == passed(each.seen) for each in outcomes):
        return passed(f"none of {len(outcomes)} malformed fields was executed twice")
    return worst(outcomes)


def long(trial: Trial) -> Flow[Outcome]:
    """Keys that are longer than a server may want: refused or protected, and no server error."""
    outcomes: list[Outcome] = []
    for name, keys in _long((yield from operation(trial.target))):
        both = yield from _twice(trial, keys)
        became = fate(trial.facts, both)
        if both.first.refused or (both.first.good and became is not Fate.EXECUTED):
            outcomes.append(passed(f"{name}: {both.first}"))
        else:
            outcomes.append(failed(f"{name}: {both.first}, then {became} ({both.second})"))
    return worst(outcomes)


def _refused(trial: Trial, fields: Sequence[Field]) -> Flow[Outcome]:
    outcomes: list[Outcome] = []
    for name, keys in fields:
        both = yield from _twice(trial, keys)
        outcomes.append(_judge(name, both))
    if all(each == passed(each.seen) for each in outcomes):
        return passed(f"400 to each of {len(outcomes)}")
    return worst(outcomes)


def _twice(trial: Trial, keys: tuple[bytes, ...]) -> Flow[Pair]:
    one = yield from operation(trial.target)
    return (yield from pair(one, one.sending(keys=keys), one.sending(keys=keys)))


def _judge(name: str, both: Pair) -> Outcome:
    if both.executed:
        return failed(f"{name} is executed ({both.first})")
    statuses = {both.first.status, both.second.status}
    if statuses == {400}:
        return passed(f"{name} is refused with 400")
    if both.first.refused and both.second.refused:
        return noted(f"{name} is refused with {both.first}, not 400")
    return failed(f"{name} is answered {both.first}, then {both.second}")


CHECKS: Final = (
    Check("A12", "an empty key is refused", Level.PRACTICE, empty, ("SF-12",)),
    Check(
        "K-3",
        "a value that is no String is refused with 400",
        Level.MUST,
        no_string,
        ("SF-1", "SF-3", "SF-4", "SF-5", "SF-9"),
    ),
    Check(
        "K-5", "more than one key is refused with 400", Level.MUST, several, ("SF-11", "A3", "B-33")
    ),
    Check(
        "A2",
        "a malformed key never runs unprotected",
        Level.PRACTICE,
        unprotected,
        ("SF-5", "B-33"),
    ),
    Check("B-34", "a long key is no server error", Level.PRACTICE, long, ("SF-8", "S-4")),
)
