"""Rows as text for people, and as JSON. Everything that is known is shown, conflicts too. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from replayfloor.retention.providers import Conflict, Direction, Figure, ProviderRow, Source
from replayfloor.retention.providers_check import Overdue
from replayfloor.retention.providers_rules import FIGURES
from replayfloor.retention.providers_terms import Horizon, is_solid, keep_at_least, rely_on
from replayfloor.retention.providers_text import shown
from replayfloor.retention.report import Json
from replayfloor.retention.terms import UNKNOWN

LIST_HEADER: Final = ("DIRECTION", "NAME", "FIGURE", "DERIVED", "CONFIDENCE", "READ ON", "MARKS")
CHECK_HEADER: Final = ("DIRECTION", "NAME", "READ ON", "AGE", "FIGURES")
NEVER: Final = "no date"

_HEADLINES: Final = {
    Direction.OUTBOUND: (("retention", "keys"),),
    Direction.INBOUND: (("auto_retry", "by itself"), ("manual_resend", "by hand")),
    Direction.BROKER: (("redelivery", "after"), ("horizon", "until")),
}
_INDENT: Final = "    "


def as_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in columns, one line a row, nothing cut off: lines are for grep too."""
    table = [header, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def list_cells(row: ProviderRow) -> tuple[str, ...]:
    """Return a row as the cells of a table."""
    headlines = [(row.figure(name), word) for name, word in _HEADLINES[row.direction]]
    figures = [figure for figure, _ in headlines]
    told = ", ".join(f"{word} {_value(figure)}" for figure, word in headlines)
    worth = sorted({figure.confidence.value for figure in figures if figure.known})
    days = [figure.read_on for figure in figures if figure.known and figure.read_on]
    marks = [
        "conflict" if any(figure.conflict for figure in figures) else "",
        "" if row.ship else "not solid",
        "yours" if row.given or any(figure.given for figure in figures) else "",
    ]
    return (
        row.direction.value,
        row.name,
        told,
        derived_text(row),
        ", ".join(worth) or "not found",
        max(days).isoformat() if days else "-",
        ", ".join(filter(None, marks)),
    )


def derived_text(row: ProviderRow) -> str:
    """Return what follows from a row, in a few words."""
    if row.direction is Direction.OUTBOUND:
        return f"rely on {_horizon(rely_on(row))}"
    return f"keep {_horizon(keep_at_least(row))}"


def _horizon(horizon: Horizon) -> str:
    if horizon.figure is None:
        return "unknown: choose"
    return f"at least {horizon.text}" if horizon.is_lower_bound else horizon.text


def _value(figure: Figure) -> str:
    if figure.known:
        return shown(figure.value)
    return f"{UNKNOWN} (it exists)" if figure.exists else UNKNOWN


def show_lines(row: ProviderRow) -> Iterator[str]:
    """Yield a row in full, line by line; its sources come last, and are named by number."""
    solid = "" if row.ship else "; NOT solid enough to go by: choose yourself"
    yours = "yours, in " if row.given else ""
    yield f"{row.direction.value}/{row.name}: {row.title} ({yours}{row.file}{solid})"
    yield f"  derived: {_derived_sentence(row)}"
    numbers: dict[Source, int] = {}
    silent: list[str] = []
    for figure in row.figures:
        if not figure.known and not figure.sources:
            silent.append(figure.name)
            continue
        yield f"  {figure.name}: {_figure_text(figure, numbers)}"
        yield from _figure_lines(figure, numbers)
    if silent:
        yield f"  {UNKNOWN}: {', '.join(silent)}"
    yield "  sources:"
    for source, number in numbers.items():
        yield f"{_INDENT}[{number}] {source}: {source.says}"


def _derived_sentence(row: ProviderRow) -> str:
    if row.direction is Direction.OUTBOUND:
        horizon = rely_on(row)
        if horizon.figure is None:
            return "a sender may rely on nothing before you choose a figure"
        return (
            f"a sender may rely on a key for {horizon.text} after its first attempt, less a margin"
        )
    horizon = keep_at_least(row)
    if horizon.figure is None:
        return "how long a receiver has to keep what it has seen is unknown: choose a figure"
    bound = "; a part is unknown, so this is a LOWER BOUND" if horizon.is_lower_bound else ""
    return (
        f"a receiver keeps what it has seen for at least {horizon.text} ({horizon.figure.name}), "
        f"plus reconciliation, outage and margin{bound}"
    )


def _figure_text(figure: Figure, numbers: dict[Source, int]) -> str:
    kind = f" ({figure.kind})" if figure.kind else ""
    worth = f", {figure.confidence.value}" if figure.known else ""
    mark = ", YOURS" if figure.given else ""
    return f"{_value(figure)}{kind}{worth}{mark}{_references(figure.sources, numbers)}"


def _references(sources: tuple[Source, ...], numbers: dict[Source, int]) -> str:
    found = [numbers.setdefault(source, len(numbers) + 1) for source in sources]
    return "".join(f" [{number}]" for number in found)


def _figure_lines(figure: Figure, numbers: dict[Source, int]) -> Iterator[str]:
    if figure.note:
        yield f"{_INDENT}note: {figure.note}"
    if figure.agreed_max:
        yield f"{_INDENT}by agreement: up to {shown(figure.agreed_max)}"
    if figure.conflict is not None:
        yield from _conflict_lines(figure.conflict, numbers)
    if figure.published is not None:
        yield f"{_INDENT}the catalogue says: {_figure_text(figure.published, numbers)}"
        yield from _figure_lines(figure.published, numbers)


def _conflict_lines(conflict: Conflict, numbers: dict[Source, int]) -> Iterator[str]:
    yield f"{_INDENT}CONFLICT of the sources:"
    for claim in conflict.claims:
        told = _references(claim.sources, numbers)
        yield f"{_INDENT}  {shown(claim.value)}: {claim.says}{told}"
    yield f"{_INDENT}  safe side: {shown(conflict.safe)}: {conflict.why}"


def row_json(row: ProviderRow) -> dict[str, Json]:
    """Return a row in full, as JSON: lengths in seconds beside the text."""
    horizon = rely_on(row) if row.direction is Direction.OUTBOUND else keep_at_least(row)
    derived = "rely_on" if row.direction is Direction.OUTBOUND else "keep_at_least"
    return {
        "direction": row.direction.value,
        "name": row.name,
        "title": row.title,
        "solid": row.ship,
        "yours": row.given,
        "file": row.file,
        "derived": {
            f"{derived}_s": finite(horizon.seconds),
            "is_lower_bound": horizon.is_lower_bound,
        },
        "figures": {
            rule.name: {"means": rule.means} | figure_json(row, figure)
            for rule, figure in zip(FIGURES[row.direction], row.figures, strict=True)
        },
    }


def figure_json(row: ProviderRow, figure: Figure) -> dict[str, Json]:
    """Return a figure as JSON."""
    made: dict[str, Json] = {
        "value": figure.value if len(figure.values) == 1 else list(figure.values),
        "confidence": figure.confidence.value,
        "solid": figure.known and is_solid(row, figure),
        "yours": figure.given,
        "read_on": figure.read_on.isoformat() if figure.read_on else None,
        "sources": [_source_json(source) for source in figure.sources],
    }
    if figure.is_duration:
        made |= {"seconds": finite(figure.seconds), "safe_s": finite(figure.safe_s)}
    texts = {"kind": figure.kind, "note": figure.note, "agreed_max": figure.agreed_max}
    made |= {name: text for name, text in texts.items() if text}
    if figure.exists:
        made["exists"] = True
    if figure.conflict is not None:
        made["conflict"] = _conflict_json(figure.conflict)
    if figure.published is not None:
        made["published"] = figure_json(row, figure.published)
    return made


def finite(length_s: float | None) -> float | str | None:
    """Return seconds as JSON can hold them."""
    return length_s if length_s is None or math.isfinite(length_s) else "unlimited"


def _source_json(source: Source) -> dict[str, Json]:
    return {"at": source.at, "read_on": source.read_on, "says": source.says}


def _conflict_json(conflict: Conflict) -> dict[str, Json]:
    return {
        "claims": [
            {
                "value": claim.value,
                "says": claim.says,
                "sources": [source.at for source in claim.sources],
            }
            for claim in conflict.claims
        ],
        "safe": conflict.safe,
        "why": conflict.why,
    }


def check_cells(found: list[Overdue]) -> tuple[str, ...]:
    """Return figures of one row that were read on one day as the cells of a table."""
    first = found[0]
    read_on = first.figure.read_on
    return (
        first.row.direction.value,
        first.row.name,
        read_on.isoformat() if read_on else NEVER,
        "-" if first.age_days is None else f"{first.age_days} d",
        ", ".join(f"{each.figure.name}{' [yours]' if each.figure.given else ''}" for each in found),
    )


def check_json(found: Overdue) -> dict[str, Json]:
    """Return a figure that has to be read again as JSON."""
    return {
        "direction": found.row.direction.value,
        "name": found.row.name,
        "figure": found.figure.name,
        "value": found.figure.value,
        "yours": found.figure.given,
        "read_on": found.figure.read_on.isoformat() if found.figure.read_on else None,
        "age_days": found.age_days,
        "sources": [_source_json(source) for source in found.figure.sources],
    }
