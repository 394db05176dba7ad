"""Reads tables of the catalogue's files strictly: what is not asked for is an error, and so is a
value of another type. Knows TOML's values, and nothing of profiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar, cast

from replayfloor.client.profile_facts import UNKNOWN
from replayfloor.core.errors import ConfigurationError

Value = TypeVar("Value")
Content: TypeAlias = dict[str, object]

_DURATION: Final = re.compile(
    r"P(?=\w)(?:(?P<days>\d{1,5})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,5})H)?(?:(?P<minutes>\d{1,5})M)?(?:(?P<seconds>\d{1,7})S)?)?"
)
_UNIT_S: Final = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_CLASS: Final = re.compile(r"([1-5])xx")


class Table:
    """One table. Every value is taken once; `end` refuses what is left."""

    def __init__(self, content: Mapping[str, object], where: str) -> None:
        self._left = dict(content)
        self.where = where

    def error(self, message: str) -> ConfigurationError:
        """Return an error that says where it is."""
        return ConfigurationError(f"{self.where}: {message}")

    def has(self, name: str) -> bool:
        """Return whether the table has such a value, and it was not taken yet."""
        return name in self._left

    def get(self, name: str) -> object:
        """Return a value, or None, without taking it."""
        return self._left.get(name)

    def take(self, name: str, kind: type[Value], default: Value | None = None) -> Value:
        """Return a value; raises ConfigurationError if it is missing or of another type."""
        if name not in self._left:
            if default is None:
                raise self.error(f"{name!r} is missing")
            return default
        value = self._left.pop(name)
        if type(value) is not kind:
            raise self.error(f"{name!r} is a {kind.__name__}, not {value!r}")
        return value

    def unknown(self, name: str) -> bool:
        """Take the value and return True if it is the text "unknown"; leave it otherwise."""
        if self._left.get(name) != UNKNOWN:
            return False
        del self._left[name]
        return True

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text that is not blank; an empty one only by default."""
        given = self.has(name)
        value = self.take(name, str, default)
        if given and not value.strip():
            raise self.error(f"{name!r} is blank")
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of texts."""
        if not self.has(name) and default is not None:
            return default
        values = cast("list[object]", self.take(name, list))
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(f"{name!r} is a list of texts, not {values!r}")
        return tuple(cast("list[str]", values))

    def table(self, name: str) -> Table:
        """Return a table; an empty one if there is none."""
        content = self.take(name, dict, {})
        return Table(cast("Content", content), f"{self.where}.{name}")

    def tables(self) -> list[tuple[str, Table]]:
        """Take every value: each is a table."""
        return [(name, self.table(name)) for name in list(self._left)]

    def over(self, common: Table) -> Table:
        """Return this table with what it lacks from another; of their tables, the same."""
        joined = {**common._left, **self._left}
        for name, below in common._left.items():
            above = self._left.get(name, {})
            if isinstance(below, dict) and isinstance(above, dict):
                joined[name] = {**cast("Content", below), **cast("Content", above)}
        return Table(joined, self.where)

    def each_table(self, name: str) -> list[Table]:
        """Return a list of tables."""
        values = cast("list[object]", self.take(name, list))
        if not all(isinstance(value, dict) for value in values):
            raise self.error(f"{name!r} is a list of tables, not {values!r}")
        return [Table(cast("Content", value), f"{self.where}.{name}") for value in values]

    def statuses(self, name: str, default: frozenset[int]) -> frozenset[int]:
        """Return statuses: numbers, and classes such as "5xx"."""
        if not self.has(name):
            return default
        found: set[int] = set()
        for value in cast("list[object]", self.take(name, list)):
            if isinstance(value, str) and (match := _CLASS.fullmatch(value)):
                first = int(match.group(1)) * 100
                found.update(range(first, first + 100))
            elif type(value) is int:
                found.add(value)
            else:
                raise self.error(f"{value!r} is neither a status nor a class of them")
        return frozenset(found)

    def end(self) -> None:
        """Refuse what was not taken: a mistyped name would be a rule that is not kept."""
        if self._left:
            raise self.error(f"unknown fields: {', '.join(sorted(self._left))}")


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as PT24H or P7D (ISO 8601); raises ValueError."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"{duration!r} is not a duration such as PT24H or P7D")
    return float(sum(int(value or 0) * _UNIT_S[unit] for unit, value in match.groupdict().items()))
