"""Checks of refusals: problem details (RFC 9457) that a program can tell apart, with a link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from replayfloor.conform.checks_mismatch import LATER_S
from replayfloor.conform.effects import Seen
from replayfloor.conform.facts import Trial, operation, send, send_one
from replayfloor.conform.target import Kind
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    passed,
    worst,
)
from replayfloor.core.effects import Flow

MEDIA_TYPE: Final = b"application/problem+json"
ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
LOCATOR: Final = re.compile(r"https?://\S+")
DESCRIBED_BY: Final = re.compile(rb'<[^>]+>[^,]*;\s*rel="?(describedby|help)"?', re.IGNORECASE)
NOTHING_REFUSED: Final = "nothing was refused"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal, and what was wrong."""

    what: str
    seen: Seen

    def members(self) -> dict[str, object] | None:
        """Return the members of its JSON object, or None if it is none."""
        try:
            content: object = json.loads(self.seen.body)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, object]", content) if isinstance(content, dict) else None


def refusals(trial: Trial, *, in_flight: bool) -> Flow[list[Refusal]]:
    """Make a server refuse, in each way that it does; in flight takes a slow path and its time."""
    one = yield from operation(trial.target)
    other = yield from operation(trial.target)
    yield from send_one(one.sending())
    found = [
        Refusal("missing key", (yield from send_one(one.sending(keys=())))),
        Refusal("malformed key", (yield from send_one(one.sending(keys=(b'"a',))))),
        Refusal("another payload", (yield from send_one(one.sending(body=one.other())))),
    ]
    if in_flight and Kind.SLOW in trial.target.paths:
        path = trial.target.slow_path()
        _, second = yield from send(
            other.sending(path=path), other.sending(path=path, after_s=LATER_S)
        )
        found.append(Refusal("in flight", second))
    return [each for each in found if each.seen.status >= 400]


Judge = Callable[[Refusal], Outcome]


def every(judge: Judge, *, in_flight: bool = True) -> Callable[[Trial], Flow[Outcome]]:
    """Return a check of each refusal on its own."""

    def check(trial: Trial) -> Flow[Outcome]:
        found = yield from refusals(trial, in_flight=in_flight)
        outcomes = [judge(each) for each in found]
        if not outcomes:
            return not_applicable(NOTHING_REFUSED)
        if all(each == passed(each.seen) for each in outcomes):
            return passed("; ".join(each.what for each in found))
        return worst(outcomes)

    return check


def media_type(each: Refusal) -> Outcome:
    """Say whether it is a problem in JSON."""
    told = (each.seen.first(b"content-type") or b"").partition(b";")[0].strip().lower()
    if told != MEDIA_TYPE:
        return failed(f"{each.what}: {each.seen} as {told.decode('latin-1') or 'nothing'}")
    if each.members() is None:
        return failed(f"{each.what}: {each.seen} is not a JSON object")
    return passed(each.what)


def status(each: Refusal) -> Outcome:
    """Say whether the status within is the status without; it may be left out."""
    told = (each.members() or {}).get("status", each.seen.status)
    if told != each.seen.status:
        return failed(f"{each.what}: {each.seen} says that its status is {told}")
    return passed(each.what)


def link(each: Refusal) -> Outcome:
    """Say whether it leads to documentation, in its body or in a Link header."""
    texts = [value for value in (each.members() or {}).values() if isinstance(value, str)]
    there = any(LOCATOR.search(text) for text in texts) or any(
        DESCRIBED_BY.search(value) for value in each.seen.all(b"link")
    )
    if there:
        return passed(each.what)
    return failed(f"{each.what}: {each.seen} has no link to documentation")


def types(trial: Trial) -> Flow[Outcome]:
    """One absolute type for each kind of refusal."""
    found = yield from refusals(trial, in_flight=True)
    if not found:
        return not_applicable(NOTHING_REFUSED)
    named = {each.what: (each.members() or {}).get("type") for each in found}
    for what, name in named.items():
        if not isinstance(name, str) or not ABSOLUTE.fullmatch(name):
            return failed(f"{what}: the type is {name}")
    if len(set(named.values())) < len(named):
        return failed(f"one type for several kinds: {', '.join(named)}")
    return passed("; ".join(str(name) for name in named.values()))


CHECKS: Final = (
    Check("P-1", "refusals are problem details", Level.SHOULD, every(media_type), ("H-3", "H-7")),
    Check("P-2", "each kind has an absolute type of its own", Level.SHOULD, types, ("H-7", "A9")),
    Check("P-3", "a problem's status is the answer's", Level.MUST, every(status)),
    Check(
        "H-1b",
        "400 and 422 link to documentation",
        Level.SHOULD,
        every(link, in_flight=False),
        ("H-1", "H-2"),
    ),
)
