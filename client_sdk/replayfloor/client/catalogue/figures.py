"""Where the figures of a catalogue's profile come from: its facts, read from a file's tables."""

from __future__ import annotations

from datetime import date
from typing import Final

from replayfloor.client.catalogue.reading import Table
from replayfloor.client.profile_answers import ERROR_STATUSES, Sign
from replayfloor.client.profile_facts import UNKNOWN, Fact, Source
from replayfloor.client.profiles import Profile

FIGURES: Final = (
    "key", "key_length", "methods", "hosts", "scope", "retention", "in_flight", "mismatch",
    "replay", "burnt", "hint",
)  # fmt: skip
"""Every profile says where each of these comes from."""

NOT_FOUND: Final = "not found"
CONFIDENCES: Final = frozenset(
    {"documented", "official SDK", "third-party", "presumed", "given", NOT_FOUND}
)

_CLASS_SIZE: Final = 100


def read_source(table: Table) -> Source:
    """Return a source; raises ConfigurationError."""
    source = Source(table.text("at"), table.text("read_on"), table.text("says"))
    table.end()
    if source.read_on != UNKNOWN and not _is_date(source.read_on):
        raise table.error(f"read_on is a date or {UNKNOWN!r}, not {source.read_on!r}")
    return source


def _is_date(text: str) -> bool:
    # Some pages tell no more than the month.
    day = f"{text}-01" if len(text) == len("2024-06") else text
    try:
        return date.fromisoformat(day).isoformat() == day
    except ValueError:
        return False


def values_of(base: Profile) -> dict[str, str]:
    """Return what the profile itself says of its figures, as text."""
    rules = base.answers
    member = f"member {base.body_field} of the JSON body"
    return {
        "key": member if base.body_field else f"header {base.header}",
        "methods": ", ".join(base.methods),
        "hosts": ", ".join(base.hosts) or UNKNOWN,
        "scope": UNKNOWN,
        "in_flight": _shown(rules.in_flight),
        "mismatch": _shown(rules.mismatch),
        "replay": ", ".join(rules.replayed_by) or UNKNOWN,
        "burnt": _numbers(rules.burnt) or UNKNOWN,
        "hint": rules.should_retry or UNKNOWN,
    }


def _shown(signs: tuple[Sign, ...]) -> str:
    return (
        "; ".join(
            " ".join((_numbers(sign.statuses), *sorted(sign.codes))).strip() for sign in signs
        )
        or UNKNOWN
    )


def _numbers(statuses: frozenset[int]) -> str:
    if statuses == ERROR_STATUSES:
        return ""
    if len(statuses) == _CLASS_SIZE:
        return f"{min(statuses) // 100}xx"
    return " ".join(str(status) for status in sorted(statuses))


def read_facts(
    table: Table, values: dict[str, str], sources: dict[str, Source], *, read: Fact | None
) -> tuple[Fact, ...]:
    """Return the facts of a profile, one for each figure.

    `values` are the figures as text; a file may put one in other words, and say where this one
    comes from if the profile's own sources do not. `read` is a fact that stands elsewhere: the
    file may say nothing of it.
    """
    places, confidence = table.texts("from"), table.text("confidence")
    given = table.table("figures")
    facts = tuple(
        read
        if read is not None and read.figure == figure
        else _fact(figure, given.table(figure), values[figure], places, confidence, sources)
        for figure in FIGURES
    )
    given.end()
    return facts


def _fact(
    figure: str,
    table: Table,
    shown: str,
    places: tuple[str, ...],
    confidence: str,
    sources: dict[str, Source],
) -> Fact:
    value = table.text("value", shown)
    fallback = NOT_FOUND if value.startswith(UNKNOWN) else confidence
    names = table.texts("from", places)
    if strange := set(names) - sources.keys():
        raise table.error(f"unknown sources: {', '.join(sorted(strange))}")
    fact = Fact(
        figure=figure,
        value=value,
        confidence=table.text("confidence", fallback),
        sources=tuple(sources[name] for name in names),
        conflict=table.text("conflict", ""),
    )
    table.end()
    if not fact.sources:
        raise table.error("a figure needs a source")
    if fact.confidence not in CONFIDENCES:
        raise table.error(f"confidence is one of {', '.join(sorted(CONFIDENCES))}")
    return fact
