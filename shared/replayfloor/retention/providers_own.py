"""What the user's own file changes of the catalogue, and adds to it. Opens no file.

    [providers.inbound.paypal]
    manual_resend = { value = "30d", source = "ticket 4711 with PayPal", read_on = 2026-11-30 }

    [providers.outbound.ledger]
    title = "Our ledger"
    retention = "30d"

Such a figure is marked as the user's wherever it is shown, and what is published stays beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, cast

from replayfloor.retention.providers import Direction, Figure, ProviderRow, Source
from replayfloor.retention.providers_rules import FIGURES, FigureRule, Form
from replayfloor.retention.providers_text import shown
from replayfloor.retention.providers_values import (
    check_name,
    read_confidence,
    read_day,
    read_values,
    tables,
    unknown_figure,
)
from replayfloor.retention.terms import UNKNOWN, Confidence
from replayfloor.retention.toml_table import Document, Table, read_document

PROVIDERS: Final = "providers"
FIGURE_MEMBERS: Final = ("value", "source", "read_on", "confidence", "kind", "note")
SYNONYMS: Final = {
    "automatic_retry": "auto_retry",
    "key_retention": "retention",
    "broker_redelivery": "horizon",
    "url": "source",
    "date": "read_on",
}
_LONGER_IS_SAFE: Final = frozenset({"auto_retry", "manual_resend", "horizon"})
_SHORTER_IS_SAFE: Final = frozenset({"retention"})


def overridden(
    rows: Iterable[ProviderRow], text: str, file: str, prefix: tuple[str, ...] = ()
) -> tuple[ProviderRow, ...]:
    """Return the rows with what a file changes and adds.

    `text` is its content, `file` its name for messages, and `prefix` the table below which
    [providers] stands. Raises PolicyError with the line: also for a figure on the dangerous side
    of the published one that does not name its source.
    """
    document = read_document(text, file)
    every = {(row.direction, row.name): row for row in rows}
    for direction, table in _own_tables(document, prefix):
        place = (direction, check_name(table))
        every[place] = _row(direction, table, every.get(place))
    return tuple(every.values())


def _own_tables(document: Document, prefix: tuple[str, ...]) -> list[tuple[Direction, Table]]:
    path = (*prefix, PROVIDERS)
    group = document.table(path)
    if group is None:
        return []
    for name in group.content:
        if name not in [each.value for each in Direction]:
            raise group.error(
                (name,),
                f"{name!r} is no direction",
                f"write [{'.'.join(path)}.inbound.{name}], or outbound or broker",
            )
    return [
        (direction, table)
        for direction in Direction
        for _, table in tables(document, (*path, direction.value))
    ]


def _row(direction: Direction, table: Table, published: ProviderRow | None) -> ProviderRow:
    rules = FIGURES[direction]
    table.refuse_unknown(("title", *(rule.name for rule in rules)), SYNONYMS)
    row = published or ProviderRow(
        name=str(table.path[-1]),
        direction=direction,
        title=str(table.path[-1]),
        ship=True,
        file=table.document.file,
        figures=tuple(unknown_figure(rule) for rule in rules),
        given=True,
    )
    return replace(
        row,
        title=table.text("title") or row.title,
        figures=tuple(
            _figure(table, rule, row) if rule.name in table.content else row.figure(rule.name)
            for rule in rules
        ),
    )


def _figure(row: Table, rule: FigureRule, before: ProviderRow) -> Figure:
    given = row.content[rule.name]
    if not isinstance(given, dict):
        given = {"value": given}
    table = Table(row.document, (*row.path, rule.name), cast("Mapping[str, object]", given))
    table.refuse_unknown(FIGURE_MEMBERS, SYNONYMS)
    values = read_values(table, ("value",), rule, table.content.get("value"))
    worth = read_confidence(table, Confidence.GIVEN)
    note = table.text("note") or ""
    figure = Figure(
        name=rule.name,
        values=values,
        is_duration=rule.form is Form.DURATION,
        confidence=Confidence.NOT_FOUND if values == (UNKNOWN,) else worth,
        sources=(
            Source(table.text("source") or table.place, read_day(table), note or "the user's own"),
        ),
        kind=table.text("kind") or "",
        note=note,
        given=True,
        published=None if before.given else before.figure(rule.name),
    )
    _refuse_unsaid(table, figure)
    return figure


def _refuse_unsaid(table: Table, figure: Figure) -> None:
    """Refuse a figure beyond the published one, unless it names its source."""
    published = figure.published
    if published is None or published.safe_s is None or figure.seconds is None:
        return
    shorter = figure.name in _LONGER_IS_SAFE and figure.seconds < published.safe_s
    longer = figure.name in _SHORTER_IS_SAFE and figure.seconds > published.safe_s
    if "source" in table.content or not (shorter or longer):
        return
    side = "shorter" if shorter else "longer"
    raise table.error(
        ("value",),
        f"{figure.name} = {shown(figure.value)} is {side} than what is published, "
        f"{shown(published.conflict.safe if published.conflict else published.value)} "
        f"[{published.provenance}]",
        f'say where that comes from: {{ value = "{figure.value}", source = "…" }}',
    )
