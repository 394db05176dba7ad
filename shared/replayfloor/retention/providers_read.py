"""Rows from the text of a catalogue's file, strictly: what is not known is refused, on its line.

    [sources.page]                    at, read_on, says
    [common.inbound]                  what the rows of a direction have in common
    [inbound.shop]                    title, ship, confidence, from, and one member for each figure
    auto_retry = { value = "P3D", note = "…", from = ["page"], confidence = "documented" }

Opens no file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from replayfloor.retention.durations import parse_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.providers import Claim, Conflict, Direction, Figure, ProviderRow, Source
from replayfloor.retention.providers_rules import FIGURES, FigureRule, Form
from replayfloor.retention.providers_values import (
    check_name,
    read_confidence,
    read_day,
    read_values,
    required_text,
    tables,
    unknown_figure,
)
from replayfloor.retention.terms import UNKNOWN, Confidence
from replayfloor.retention.toml_table import Document, Table, did_you_mean, read_document

ROW_MEMBERS: Final = ("title", "ship", "confidence", "from")
FIGURE_MEMBERS: Final = (
    "value", "kind", "note", "exists", "agreed_max", "from", "confidence", "conflict", "safe",
    "why",
)  # fmt: skip
ANY_AGREED: Final = "any"


def read_rows(text: str, file: str) -> tuple[ProviderRow, ...]:
    """Return the rows of a file of the catalogue; raises PolicyError with the line."""
    try:
        return _rows(Document(file, tomllib.loads(text), {}))
    except (tomllib.TOMLDecodeError, PolicyError):
        # Finding the lines takes longer than reading, and is needed for a message only.
        return _rows(read_document(text, file))


def _rows(document: Document) -> tuple[ProviderRow, ...]:
    root = Table(document, (), document.content)
    root.refuse_unknown(("sources", "common", *(each.value for each in Direction)), {})
    sources = {name: _source(name, table) for name, table in tables(document, ("sources",))}
    shared = document.table(("common",))
    if shared is not None:
        shared.refuse_unknown([each.value for each in Direction], {})
    common = {} if shared is None else dict(shared.tables())
    rows: list[ProviderRow] = []
    for direction in Direction:
        reader = _Reader(direction, sources, common.get(direction.value))
        rows.extend(reader.row(table) for _, table in tables(document, (direction.value,)))
    return tuple(rows)


def _source(name: str, table: Table) -> Source:
    table.refuse_unknown(("at", "read_on", "says"), {})
    at, says = required_text(table, "at"), required_text(table, "says")
    return Source(at, read_day(table, required=True), says, name)


@dataclass(frozen=True, slots=True)
class _Reader:
    direction: Direction
    sources: Mapping[str, Source]
    common: Table | None

    def row(self, own: Table) -> ProviderRow:
        """Return the row of a table, over what it has in common with others."""
        name = check_name(own)
        rules = FIGURES[self.direction]
        names = (*ROW_MEMBERS, *(rule.name for rule in rules))
        content = dict(own.content)
        if self.common is not None:
            self.common.refuse_unknown(names, {})
            content = {**self.common.content, **content}
        own.refuse_unknown(names, {})
        table = Table(own.document, own.path, content)
        confidence, places = read_confidence(table, None), self._from(table, None)
        ship = content.get("ship")
        if not isinstance(ship, bool):
            raise table.error(("ship",), f"ship is true or false, not {ship!r}")
        return ProviderRow(
            name=name,
            direction=self.direction,
            title=required_text(table, "title"),
            ship=ship,
            file=own.document.file,
            figures=tuple(self._figure(table, rule, confidence, places) for rule in rules),
            sources=tuple(self.sources.values()),
        )

    def _from(self, table: Table, default: tuple[Source, ...] | None) -> tuple[Source, ...]:
        names = table.texts("from")
        if not names:
            if default is None or "from" in table.content:
                raise table.error(("from",), "a figure needs a source", 'write from = ["…"]')
            return default
        for at, name in enumerate(names):
            if name not in self.sources:
                advice = did_you_mean(name, self.sources, {})
                raise table.error(("from", at), f"no source {name!r}", advice)
        return tuple(self.sources[name] for name in names)

    def _figure(
        self, row: Table, rule: FigureRule, confidence: Confidence, places: tuple[Source, ...]
    ) -> Figure:
        if rule.name not in row.content:
            if rule.required:
                raise row.error((), f"{rule.name!r} is missing", f'write {rule.name} = "unknown"')
            return unknown_figure(rule)
        given = row.content[rule.name]
        if not isinstance(given, dict):
            given = {"value": given}
        table = Table(row.document, (*row.path, rule.name), cast("Mapping[str, object]", given))
        table.refuse_unknown(FIGURE_MEMBERS, {"source": "from"})
        values = read_values(table, ("value",), rule, table.content.get("value"))
        known = values != (UNKNOWN,)
        return Figure(
            name=rule.name,
            values=values,
            is_duration=rule.form is Form.DURATION,
            confidence=read_confidence(table, confidence) if known else Confidence.NOT_FOUND,
            sources=self._from(table, places),
            kind=table.text("kind") or "",
            note=table.text("note") or "",
            exists=_exists(table, known=known),
            agreed_max=_agreed(table),
            conflict=self._conflict(table, rule, places),
        )

    def _conflict(
        self, table: Table, rule: FigureRule, places: tuple[Source, ...]
    ) -> Conflict | None:
        members = [name for name in ("conflict", "safe", "why") if name in table.content]
        if not members:
            return None
        if len(members) < len(("conflict", "safe", "why")):
            raise table.error((members[0],), "a conflict has claims, a safe side, and why")
        claims = table.content["conflict"]
        if not isinstance(claims, list) or len(cast("list[object]", claims)) < 2:
            raise table.error(("conflict",), "a conflict is a list of at least two claims")
        safe = read_values(table, ("safe",), rule, table.content["safe"])
        return Conflict(
            claims=tuple(
                self._claim(table, at, each, places)
                for at, each in enumerate(cast("list[object]", claims))
            ),
            safe=safe[0],
            why=required_text(table, "why"),
        )

    def _claim(self, figure: Table, at: int, given: object, places: tuple[Source, ...]) -> Claim:
        if not isinstance(given, dict):
            raise figure.error(("conflict", at), f"a claim is a table, not {given!r}")
        path = (*figure.path, "conflict", at)
        table = Table(figure.document, path, cast("Mapping[str, object]", given))
        table.refuse_unknown(("value", "says", "from"), {})
        return Claim(
            required_text(table, "value"),
            required_text(table, "says"),
            self._from(table, self._from(figure, places)),
        )


def _exists(table: Table, *, known: bool) -> bool:
    value = table.content.get("exists", False)
    if not isinstance(value, bool) or (value and known):
        raise table.error(("exists",), "exists is true where the value is unknown, and only then")
    return value


def _agreed(table: Table) -> str:
    text = table.text("agreed_max")
    if text is None:
        return ""
    if text != ANY_AGREED:
        try:
            parse_duration(text)
        except PolicyError as error:
            raise table.error(("agreed_max",), error.message, error.advice) from None
    return text
