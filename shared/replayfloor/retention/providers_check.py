"""Which figures have to be read again: those that are too old, or have no date. Pure, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from replayfloor.retention.providers import Figure, ProviderRow

OLDER_THAN_S: Final = 180 * 86_400.0
"""Half a year, by default: providers announce changes of such policies months ahead, if at all."""

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Overdue:
    """A figure that has to be read again; `age_days` is None if no day of reading is known."""

    row: ProviderRow
    figure: Figure
    age_days: int | None


def overdue(
    rows: Iterable[ProviderRow], *, at: date, older_than_s: float = OLDER_THAN_S
) -> tuple[Overdue, ...]:
    """Return the figures that were read more than `older_than_s` seconds before `at`, or never.

    What is unknown is left out: there is no figure that could have changed. A figure counts as
    read on the newest day of its sources; one of the user's own needs a day as any other does.
    """
    found: list[Overdue] = []
    for row in rows:
        for figure in row.figures:
            if not figure.known:
                continue
            age = None if figure.read_on is None else (at - figure.read_on).days
            if age is None or age * _DAY_S > older_than_s:
                found.append(Overdue(row, figure, age))
    return tuple(found)
