"""The catalogue of providers: what is published of them, as values. Reads nothing, derives nothing.

    row = get_provider("stripe", direction="inbound")
    row.figure("manual_resend").value          "P30D", with sources, dates and conflicts

A figure that no source states is "unknown", a value like any other. Where sources disagree, all of
them are kept, and which one is the safe side. What is made of a row is in `providers_terms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.providers_text import length_s, shown
from replayfloor.retention.terms import UNKNOWN, Confidence, Provenance
from replayfloor.retention.toml_table import did_you_mean

_MONTH: Final = len("2024-06")


class Direction(StrEnum):
    """Who sends. The value is the name of its table in a file."""

    OUTBOUND = "outbound"
    """We send, and the provider remembers our keys."""
    INBOUND = "inbound"
    """The provider sends webhooks, and repeats them."""
    BROKER = "broker"
    """A broker hands out messages, and does so again."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place where a figure was read.

    `read_on` is the day, or only the month, of the page, commit or API version: "2026-09-30",
    "2024-06", or "unknown", which counts as old. `says` is what it says, in our words.
    """

    at: str
    read_on: str
    says: str
    name: str = ""

    @property
    def day(self) -> date | None:
        """The day it was read on, the first of the month if only that is known; or None."""
        if self.read_on == UNKNOWN:
            return None
        day = f"{self.read_on}-01" if len(self.read_on) == _MONTH else self.read_on
        return date.fromisoformat(day)

    def __str__(self) -> str:
        """Return the place with its date, on one line."""
        return f"{self.at} (read on: {self.read_on})"


@dataclass(frozen=True, slots=True)
class Claim:
    """One side of a conflict: what it says the figure is, and who says so."""

    value: str
    says: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """How sources disagree, which value is the safe side, and why."""

    claims: tuple[Claim, ...]
    safe: str
    why: str

    def __str__(self) -> str:
        """Return it on one line."""
        claims = "; ".join(f"{shown(claim.value)} ({claim.says})" for claim in self.claims)
        return f"{claims}; safe side: {shown(self.safe)}, because {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a row.

    Args:
        name: what it is.
        values: its text, or texts where it is a list; ("unknown",) if no source states it.
        is_duration: the text is a length of time, in ISO 8601, or "unlimited".
        confidence: how much it is worth.
        sources: where it was read; () only if it is unknown.
        kind: for a retention: minimum, fixed, window, default.
        note: what else is to be known of it.
        exists: there is such a thing, and how long it goes on is not stated.
        agreed_max: the longest that the provider grants by agreement; "any"; "" for nothing.
        conflict: how sources disagree.
        given: the figure is the user's own, and `published` is what is shipped, if anything.
    """

    name: str
    values: tuple[str, ...]
    is_duration: bool
    confidence: Confidence
    sources: tuple[Source, ...]
    kind: str = ""
    note: str = ""
    exists: bool = False
    agreed_max: str = ""
    conflict: Conflict | None = None
    given: bool = False
    published: Figure | None = None

    @property
    def value(self) -> str:
        """Its text."""
        return ", ".join(self.values)

    @property
    def known(self) -> bool:
        """Whether any source states it."""
        return self.value != UNKNOWN

    @property
    def seconds(self) -> float | None:
        """The length as stated, in seconds: None if unknown or no length, infinity if unlimited."""
        return length_s(self.value) if self.is_duration else None

    @property
    def safe(self) -> str:
        """Its text on the safe side, where sources disagree."""
        return self.value if self.conflict is None else self.conflict.safe

    @property
    def safe_s(self) -> float | None:
        """The length on the safe side, in seconds as `seconds` is."""
        return length_s(self.safe) if self.is_duration else None

    @property
    def read_on(self) -> date | None:
        """The newest day on which one of the sources was read; None if no day is known."""
        return max((source.day for source in self.sources if source.day), default=None)

    @property
    def provenance(self) -> Provenance:
        """Where it comes from, for a term of a policy."""
        note = "; ".join(part for part in (self.kind, self.note, str(self.conflict or "")) if part)
        at = "; ".join(source.at for source in self.sources) or "the catalogue"
        return Provenance(at, self.read_on, self.confidence, note)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRow:
    """What is published of one side of a provider, or of one of its APIs.

    Args:
        name: unique within its direction.
        title: the name for people.
        ship: solid enough to go by without the user's word.
        file: the file it stands in, for messages.
        figures: every figure that the direction knows, in its order.
        sources: all sources of the file, also of rows beside it.
        given: the row is the user's own, and not shipped.
    """

    name: str
    direction: Direction
    title: str
    ship: bool
    file: str
    figures: tuple[Figure, ...]
    sources: tuple[Source, ...] = ()
    given: bool = False

    def figure(self, name: str) -> Figure:
        """Return a figure; raises PolicyError if the direction has none of that name."""
        for each in self.figures:
            if each.name == name:
                return each
        names = [each.name for each in self.figures]
        raise PolicyError(f"no figure {name!r}", advice=did_you_mean(name, names, {}))

    @property
    def conflicts(self) -> tuple[Figure, ...]:
        """The figures on which sources disagree."""
        return tuple(each for each in self.figures if each.conflict is not None)


def providers(
    direction: Direction | str | None = None, *, rows: Iterable[ProviderRow] | None = None
) -> tuple[ProviderRow, ...]:
    """Return all rows, or those of a direction, sorted by direction and name.

    `rows` are those to choose from; default: the ones that are shipped. Raises PolicyError.
    """
    wanted = None if direction is None else as_direction(direction)
    found = _shipped() if rows is None else rows
    order = list(Direction)
    return tuple(
        sorted(
            (row for row in found if wanted in (None, row.direction)),
            key=lambda row: (order.index(row.direction), row.name),
        )
    )


def get_provider(
    name: str,
    *,
    direction: Direction | str | None = None,
    rows: Iterable[ProviderRow] | None = None,
) -> ProviderRow:
    """Return a row by its name.

    Most providers have a row in two directions: say which. Raises PolicyError if there is none,
    or more than one.
    """
    every = providers(direction, rows=rows)
    match [row for row in every if row.name == name]:
        case [row]:
            return row
        case []:
            advice = did_you_mean(name, (row.name for row in every), {})
            raise PolicyError(f"no provider {name!r}", advice=advice)
        case found:
            sides = " or ".join(f'"{row.direction}"' for row in found)
            raise PolicyError(f"{name!r} is known in several directions", advice=f"say {sides}")


def as_direction(text: str) -> Direction:
    """Return a direction by its name; raises PolicyError."""
    try:
        return Direction(text)
    except ValueError:
        names = [each.value for each in Direction]
        advice = did_you_mean(text, names, {})
        raise PolicyError(f"{text!r} is no direction", advice=advice) from None


def _shipped() -> tuple[ProviderRow, ...]:
    # Its reader needs this module.
    from replayfloor.retention.providers_files import shipped_rows

    return shipped_rows()
