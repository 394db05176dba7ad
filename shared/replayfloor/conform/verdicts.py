"""What a check comes to, and what a check is. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from replayfloor.core.effects import Flow
from replayfloor.core.errors import IdempotencyError

if TYPE_CHECKING:
    from replayfloor.conform.facts import Trial


class CannotRun(IdempotencyError):
    """The checks cannot be run: the server, or what was said about it, does not allow it."""


class Verdict(StrEnum):
    """How a check ended. NOTE tells something that no text forbids; it fails nothing."""

    PASS = "pass"
    FAIL = "fail"
    NOTE = "note"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"


class Level(StrEnum):
    """How binding a check's rule is.

    MUST and SHOULD are the draft's, or of an RFC beneath it. PRACTICE is ours: without it a retry
    can do harm, or a client cannot know what happened, though no text says so.
    """

    MUST = "MUST"
    SHOULD = "SHOULD"
    PRACTICE = "practice"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and what was seen in one sentence."""

    verdict: Verdict
    seen: str


@dataclass(frozen=True, slots=True)
class Check:
    """One rule of the catalogue. `rules` are further ids that it looks at."""

    id: str
    title: str
    level: Level
    run: Callable[[Trial], Flow[Outcome]]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What one check came to."""

    check: Check
    outcome: Outcome


def passed(seen: str) -> Outcome:
    """Return a pass."""
    return Outcome(Verdict.PASS, seen)


def failed(seen: str) -> Outcome:
    """Return a failure."""
    return Outcome(Verdict.FAIL, seen)


def noted(seen: str) -> Outcome:
    """Return a note."""
    return Outcome(Verdict.NOTE, seen)


def not_applicable(why: str) -> Outcome:
    """Return that the check says nothing about this server, and why."""
    return Outcome(Verdict.NOT_APPLICABLE, why)


def worst(outcomes: list[Outcome]) -> Outcome:
    """Return one outcome for several: the failures together, else notes, else passes."""
    for verdict in (Verdict.FAIL, Verdict.NOTE, Verdict.PASS):
        found = [each.seen for each in outcomes if each.verdict is verdict]
        if found:
            return Outcome(verdict, "; ".join(found))
    return outcomes[0]
