"""How long a provider remembers a key: a figure of `replayfloor.retention`'s catalogue, never ours.

A profile names the row, and has its retention, where that was read, and all sources of the row's
file from there. Only servers without a row state a retention in the profile itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from replayfloor.client.catalogue.reading import Table, seconds
from replayfloor.client.profile_facts import UNKNOWN, Fact, Source
from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.durations import parse_duration
from replayfloor.retention.providers import Direction, Figure, ProviderRow, get_provider
from replayfloor.retention.providers import Source as CatalogueSource
from replayfloor.retention.providers_terms import rely_on

FIGURE: Final = "retention"
ANY_AGREED: Final = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """A retention, or why there is none.

    `seconds` is None if no source states it, and then `reason` says so. `agreed_max_s` is the
    longest that a provider grants by agreement: None for nothing, infinity for anything. `sources`
    are those of the row, by name, and `fact` is its figure; neither is there without a row.
    """

    seconds: float | None
    reason: str
    agreed_max_s: float | None
    shown: str
    sources: dict[str, Source]
    fact: Fact | None = None


def read_retention(table: Table) -> Retention:
    """Take the retention from a profile's table; raises ConfigurationError."""
    if not table.has("row"):
        return _own(table)
    try:
        row = get_provider(table.text("row"), direction=Direction.OUTBOUND)
    except ConfigurationError as error:
        raise table.error(str(error)) from error
    return _of(row)


def _of(row: ProviderRow) -> Retention:
    figure = row.figure(FIGURE)
    length_s = rely_on(row).seconds
    shown = figure.value if length_s is not None else UNKNOWN
    kind = f", {figure.kind}" if figure.kind and length_s is not None else ""
    return Retention(
        seconds=length_s,
        reason="" if length_s is not None else figure.note or "no solid source states it",
        agreed_max_s=_agreed_s(figure),
        shown=f"{shown}{kind}",
        sources={source.name: _source(source) for source in row.sources},
        fact=Fact(
            figure=FIGURE,
            value=f"{shown}{kind}",
            confidence=figure.confidence.value,
            sources=tuple(_source(source) for source in figure.sources),
            conflict=str(figure.conflict or ""),
        ),
    )


def _source(source: CatalogueSource) -> Source:
    return Source(source.at, source.read_on, source.says)


def _agreed_s(figure: Figure) -> float | None:
    if not figure.agreed_max:
        return None
    return math.inf if figure.agreed_max == ANY_AGREED else parse_duration(figure.agreed_max)


def _own(table: Table) -> Retention:
    retention, kind = (table.text(each) for each in (FIGURE, "retention_kind"))
    length_s = _duration(table, retention)
    reason = table.text("retention_reason", "")
    if (length_s is None) != bool(reason):
        raise table.error("retention_reason says why there is no retention, and only then")
    agreed = table.text("retention_agreed_max", UNKNOWN)
    return Retention(
        seconds=length_s,
        reason=reason,
        agreed_max_s=math.inf if agreed == ANY_AGREED else _duration(table, agreed),
        shown=UNKNOWN if length_s is None else f"{retention}, {kind}",
        sources={},
    )


def _duration(table: Table, text: str) -> float | None:
    try:
        return None if text == UNKNOWN else seconds(text)
    except ValueError as error:
        raise table.error(str(error)) from error
