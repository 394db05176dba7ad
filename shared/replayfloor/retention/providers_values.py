"""Reads the members of a row's table: what shipped rows and the user's own have in common."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, cast

from replayfloor.retention.durations import parse_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.providers import Figure, Source
from replayfloor.retention.providers_rules import PLACES, FigureRule, Form
from replayfloor.retention.providers_text import UNLIMITED
from replayfloor.retention.terms import UNKNOWN, Confidence
from replayfloor.retention.toml_table import Document, Table, did_you_mean

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DAY: Final = re.compile(r"\d{4}-\d{2}(?:-\d{2})?", re.ASCII)
_PLACE: Final = re.compile(r"header [!#$%&'*+.^_`|~0-9A-Za-z-]+|body(?: /[^\s+]+)?|none")


def tables(document: Document, path: tuple[str, ...]) -> list[tuple[str, Table]]:
    """Return the tables of a group, by name; raises PolicyError if something else is in it."""
    group = document.table(path)
    return [] if group is None else list(group.tables())


def read_day(table: Table, *, required: bool = False) -> str:
    """Return the text of a day, of a month or "unknown"; raises PolicyError."""
    value = table.content.get("read_on", None if required else UNKNOWN)
    text = value.isoformat() if type(value) is date else value
    if isinstance(text, str) and (text == UNKNOWN or _is_day(text)):
        return text
    raise table.error(
        ("read_on",),
        f"read_on is a date, not {value!r}",
        'write it as "2026-11-30", or "2024-06" if only the month is known, or "unknown"',
    )


def _is_day(text: str) -> bool:
    if not _DAY.fullmatch(text):
        return False
    try:
        return bool(Source("", text, "").day)
    except ValueError:
        return False


def required_text(table: Table, name: str) -> str:
    """Return a text that has to be there; raises PolicyError."""
    text = table.text(name)
    if text is None:
        raise table.error((), f"{name!r} is missing in {'.'.join(map(str, table.path))}")
    return text


def read_confidence(table: Table, default: Confidence | None) -> Confidence:
    """Return how much a figure is worth; raises PolicyError."""
    text = table.text("confidence") if default is not None else required_text(table, "confidence")
    if text is None:
        # mypy cannot see that only a default leads here.
        return default or Confidence.NOT_FOUND
    try:
        return Confidence(text)
    except ValueError:
        known = [each.value for each in Confidence]
        advice = did_you_mean(text, known, {})
        raise table.error(("confidence",), f"{text!r} is no confidence", advice) from None


def check_name(table: Table) -> str:
    """Return the name of a row, which is that of its table; raises PolicyError."""
    name = str(table.path[-1])
    if not _NAME.fullmatch(name):
        raise table.error((), f"{name!r} is no name of a row", "use a-z, 0-9 and -")
    return name


def unknown_figure(rule: FigureRule, sources: tuple[Source, ...] = ()) -> Figure:
    """Return the figure that nobody states."""
    return Figure(
        name=rule.name,
        values=(UNKNOWN,),
        is_duration=rule.form is Form.DURATION,
        confidence=Confidence.NOT_FOUND,
        sources=sources,
    )


def read_values(
    table: Table, below: tuple[str, ...], rule: FigureRule, value: object
) -> tuple[str, ...]:
    """Return the value of a figure as its texts; raises PolicyError."""
    if rule.form is Form.TEXTS and isinstance(value, list):
        values = cast("list[object]", value)
    else:
        values = [value]
        if rule.form is Form.TEXTS and value != UNKNOWN:
            raise table.error(below, f"{rule.name} is a list of texts, not {value!r}")
    if not values or not all(isinstance(each, str) and each.strip() for each in values):
        raise table.error(below, f"{rule.name} is {rule.form.value}, not {value!r}")
    texts = cast("tuple[str, ...]", tuple(values))
    _check_value(table, below, rule, texts)
    return texts


def _check_value(
    table: Table, below: tuple[str, ...], rule: FigureRule, texts: tuple[str, ...]
) -> None:
    if texts == (UNKNOWN,):
        return
    if rule.form is Form.DURATION and texts != (UNLIMITED,):
        try:
            parse_duration(texts[0])
        except PolicyError as error:
            raise table.error(below, f"{rule.name}: {error.message}", error.advice) from None
    if rule.name in PLACES and not all(_PLACE.fullmatch(part) for part in texts[0].split(" + ")):
        raise table.error(
            below,
            f"{rule.name} is no place: {texts[0]!r}",
            'write "header NAME" or "body /pointer", several with " + " between, or "none"',
        )
