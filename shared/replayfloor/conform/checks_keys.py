"""Checks of well-formed keys: when two fields are one key, and when they are not."""

from __future__ import annotations

import json
from typing import Final, cast

from replayfloor.conform.effects import Seen, Sending
from replayfloor.conform.facts import (
    UNKNOWN,
    Fate,
    Trial,
    effects_of,
    fate,
    marked,
    more,
    operation,
    pair,
    send_one,
)
from replayfloor.conform.target import Operation
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


def missing(trial: Trial) -> Flow[Outcome]:
    """A request without a key, where one is required."""
    one = yield from operation(trial.target)
    before = yield from effects_of(one)
    seen = yield from send_one(one.sending(keys=()))
    ran = more(before, (yield from effects_of(one)))
    if seen.good:
        return not_applicable(f"no key is required: {seen} without one")
    if ran:
        return failed(f"executed, and answered {seen}")
    return (passed if seen.status == 400 else failed)(f"{seen} without a key")


def parameters(trial: Trial) -> Flow[Outcome]:
    """A parameter behind the key, which is not a part of it."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending(keys=(quoted(one) + b";a=1",)))
    return _same_key(trial, both.second, fate(trial.facts, both), '"k";a=1 after "k"')


def field_name(trial: Trial) -> Flow[Outcome]:
    """The name of the field, in other letters."""
    one = yield from operation(trial.target)
    odd = one.sending(field_name=b"iDEMPOTENCY-kEY")
    both = yield from pair(one, one.sending(), odd)
    if both.second.refused:
        return failed(f"{both.second} to a key in iDEMPOTENCY-kEY")
    return _same_key(trial, both.second, fate(trial.facts, both), "iDEMPOTENCY-kEY")


def bare(trial: Trial) -> Flow[Outcome]:
    """One key with quotes and without: refused, or the same, and never two operations."""
    one = yield from operation(trial.target)
    both = yield from pair(
        one, one.sending(keys=(quoted(one),)), one.sending(keys=(one.name.encode(),))
    )
    return _same_key(trial, both.second, fate(trial.facts, both), 'k after "k"', lenient=True)


def quoted(one: Operation) -> bytes:
    """Return the field value of an operation's key as a String."""
    return f'"{one.name}"'.encode()


def _same_key(
    trial: Trial, second: Seen, became: Fate, what: str, *, lenient: bool = False
) -> Outcome:
    match became:
        case Fate.REPLAYED if lenient and trial.target.quoted:
            return noted(f"{what} is the same key; RFC 9651 asks for a refusal")
        case Fate.REPLAYED:
            return passed(f"{what} is the same key")
        case Fate.REFUSED if second.status == 400 and lenient:
            return passed(f"{what} is refused with 400")
        case Fate.REFUSED:
            return noted(f"{what} is refused with {second}")
        case Fate.UNKNOWN:
            return not_applicable(UNKNOWN)
        case Fate.EXECUTED | Fate.ALTERED | Fate.BROKEN:
            return failed(f"{what} is {became} ({second})")


RANDOM_TEXT: Final = "clkyoesmbgybucifusbb"


def random_text(trial: Trial) -> Flow[Outcome]:
    """A key that is no UUID."""
    one = yield from operation(trial.target)
    named = f"{RANDOM_TEXT}-{one.name}"
    seen = yield from send_one(one.sending(keys=(_field(trial, named),)))
    if seen.good:
        return passed(f"{seen} to a key that is no UUID")
    if seen.refused:
        return noted(f"{seen}: keys have to have a format of this server's")
    return failed(f"{seen} to a key that is no UUID")


def letter_case(trial: Trial) -> Flow[Outcome]:
    """Two keys that differ in the case of letters only."""
    one = yield from operation(trial.target)
    lower, upper = f"k{one.name}".lower(), f"K{one.name}".upper()
    both = yield from pair(
        one,
        one.sending(keys=(_field(trial, lower),)),
        one.sending(keys=(_field(trial, upper),)),
    )
    return _two_operations(trial, both.first, both.second, fate(trial.facts, both), "K after k")


def equal_requests(trial: Trial) -> Flow[Outcome]:
    """Two keys with one payload, which are two operations."""
    one = yield from operation(trial.target)
    other = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending(keys=(other.key,)))
    what = "another key with the same payload"
    return _two_operations(trial, both.first, both.second, fate(trial.facts, both), what)


def _two_operations(trial: Trial, first: Seen, second: Seen, became: Fate, what: str) -> Outcome:
    if not first.good:
        return not_applicable(f"the first of the keys is answered {first}")
    match became:
        case Fate.EXECUTED:
            return passed(f"{what} is an operation of its own")
        case Fate.REPLAYED | Fate.REFUSED | Fate.BROKEN | Fate.ALTERED:
            return failed(f"{what} is {became} ({second})")
        case Fate.UNKNOWN:
            return not_applicable(UNKNOWN)


def on_get(trial: Trial) -> Flow[Outcome]:
    """A key on a GET, which has no use for it and must not spend it."""
    one = yield from operation(trial.target)
    plain = yield from send_one(_get(one, keys=()))
    twice = yield from pair(one, _get(one), _get(one))
    if twice.first.status != plain.status or marked(twice.second):
        seen = f"{plain} without a key, {twice.first} with one"
        return failed(seen + (", replayed" if marked(twice.second) else ""))
    write = yield from send_one(one.sending())
    if write.good and not marked(write):
        return passed(f"{twice.first} with a key as without, and the key is free")
    return failed(f"the key of a GET is spent: {write}")


def _get(one: Operation, keys: tuple[bytes, ...] | None = None) -> Sending:
    return one.sending(method="GET", body=b"", keys=keys)


def member_order(trial: Trial) -> Flow[Outcome]:
    """The same JSON, with its members in another order: told, not judged."""
    one = yield from operation(trial.target)
    ordered = one.sending()
    other = _reordered(ordered.body)
    if other is None:
        return not_applicable("the payload is no JSON object of two members or more")
    both = yield from pair(one, ordered, one.sending(body=other))
    became = fate(trial.facts, both)
    if became in (Fate.EXECUTED, Fate.BROKEN):
        return failed(f"members in another order: {became} ({both.second})")
    return noted(f"members in another order: {became} ({both.second})")


def _reordered(body: bytes) -> bytes | None:
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    members = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    if len(members) < 2:
        return None
    return json.dumps(dict(reversed(members.items()))).encode()


def _field(trial: Trial, name: str) -> bytes:
    return (f'"{name}"' if trial.target.quoted else name).encode()


CHECKS: Final = (
    Check("H-1", "a request without a key is refused with 400", Level.SHOULD, missing),
    Check("K-1", "parameters of the field do not count", Level.MUST, parameters, ("SF-7",)),
    Check("K-6", "the name of the field has no letter case", Level.MUST, field_name),
    Check("SF-6", 'k and "k" are never two operations', Level.MUST, bare, ("A1", "B-33")),
    Check("EX-2", "a key need not be a UUID", Level.PRACTICE, random_text),
    Check("U7-7", "the letter case of a key counts", Level.PRACTICE, letter_case, ("B-33",)),
    Check("B-29", "two keys are two operations", Level.SHOULD, equal_requests, ("E-1",)),
    Check("H9-5", "a key on a GET is ignored", Level.PRACTICE, on_get, ("A11",)),
    Check("A19", "JSON members in another order", Level.PRACTICE, member_order),
)
