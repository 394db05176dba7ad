"""What a check says: how bad it is, what was found, why it matters, what to do. Values only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

Data: TypeAlias = "Mapping[str, float | str | bool | None]"
"""The figures of a finding, by name: for a program, which should not have to read sentences."""


def no_figures() -> Data:
    """Return none."""
    return MappingProxyType({})


class Level(IntEnum):
    """How bad it is. The order counts: the worst one decides the exit code."""

    OK = 0
    NOTE = 1
    """Worth knowing; nothing has to be done."""
    WARNING = 2
    """Something costs time or space, or will go wrong unless somebody acts."""
    CRITICAL = 3
    """Requests are refused now, or a retry could be executed a second time."""

    @property
    def word(self) -> str:
        """As it is printed."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: its name, such as "redis.eviction": stable, for `--accept` and for programs.
        level: how bad it is.
        found: what there is.
        why: why that matters here; "" if all is well.
        do: what to do; "" if nothing.
        seen: False if it could not be read, and `found` says why.
        data: the figures of it.
        where: which server of several, "" if there is but one.
        accepted: it was worse, and whoever runs this has said that it is meant to be so.
    """

    check: str
    level: Level
    found: str
    why: str = ""
    do: str = ""
    seen: bool = True
    data: Data = field(default_factory=no_figures)
    where: str = ""
    accepted: bool = False


def ok(check: str, found: str, **data: float | str | bool | None) -> Finding:
    """Return a finding that all is well."""
    return Finding(check, Level.OK, found, data=data)


def unseen(check: str, reason: str, do: str = "") -> Finding:
    """Return a finding that something could not be looked at, and why."""
    return Finding(check, Level.NOTE, f"not looked at: {reason}", do=do, seen=False)


def accept(findings: Iterable[Finding], accepted: Collection[str]) -> list[Finding]:
    """Return the findings, those of the accepted checks no worse than a note."""
    return [
        replace(each, level=Level.NOTE, accepted=True)
        if each.check in accepted and each.level > Level.NOTE
        else each
        for each in findings
    ]


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level; OK if nothing was found."""
    return max((each.level for each in findings), default=Level.OK)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 for nothing worse than a note, 1 for a warning, 2 for something critical."""
    return max(0, worst(findings) - Level.NOTE)
