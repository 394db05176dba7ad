"""One figure of a policy file: its length, and where it says it comes from.

planned_outage = "12h"
planned_outage = { value = "12h", source = "runbook, chapter 3", read_on = 2026-11-30 }
"""

from __future__ import annotations

from datetime import time
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.terms import UNKNOWN, Confidence, Provenance, Term, TermKind, as_term
from replayfloor.retention.toml_table import Table, did_you_mean

VALUE, SOURCE = "value", "source"
FIELDS: Final = (VALUE, SOURCE, "read_on", "confidence", "note")
SYNONYMS: Final = {
    "ttl": "retention",
    "expiry": "retention",
    "lifetime": "retention",
    "sender": "senders",
    "outage": "planned_outage",
    "downtime": "planned_outage",
    "margin": "safety_margin",
    "cadence": "reconciliation_cadence",
    "auto_retry": "automatic_retry",
    "resend": "manual_resend",
    "redelivery": "broker_redelivery",
    "budget": "retry_budget",
}
"""What people write for names of terms, where no likeness of letters would tell."""

_EXAMPLE: Final = '"84h", "30d", "5m" or "P3D"'


def read_term(table: Table, kind: TermKind) -> Term | None:
    """Return a figure of a table; None if it is not there. Raises PolicyError, on its line."""
    name = kind.value
    if name not in table.content:
        return None
    if not isinstance(table.content[name], dict):
        source = Provenance(table.place_of(name))
        return _term(table, (name,), kind, table.content[name], source)
    inner = table.document.table((*table.path, name))
    if inner is None or VALUE not in inner.content:
        raise table.error(
            (name,), f"{name} has no {VALUE}", f'write {name} = {{ value = "84h", source = "…" }}'
        )
    inner.refuse_unknown(FIELDS, {"unit": VALUE, "url": SOURCE, "date": "read_on"})
    return _term(table, (name, VALUE), kind, inner.content[VALUE], _provenance(inner))


def says_where_from(table: Table, kind: TermKind) -> bool:
    """Return whether a figure of a table names its source."""
    inner = table.content.get(kind.value)
    return isinstance(inner, dict) and SOURCE in inner


def _term(
    table: Table, below: tuple[str, ...], kind: TermKind, value: object, source: Provenance
) -> Term:
    try:
        return as_term(kind, _length(kind.value, value), _worth(value, source))
    except PolicyError as error:
        told = error if error.message.startswith(kind.value) else error.about(kind.value)
        raise table.error(below, told.message, told.advice) from None


def _length(name: str, value: object) -> str | float:
    """Return a value as the length it stands for; raises PolicyError without a place."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == 0:
            # Nothing is nothing in every unit.
            return 0.0
        if value < 0:
            raise PolicyError(f"{name} is negative", advice=f"write a length such as {_EXAMPLE}")
        advice = f'write {name} = "{value}s" if seconds are meant'
        raise PolicyError(f"{name} = {value} has no unit", advice=advice)
    what = "a time of day" if isinstance(value, time) else f"{value!r}"
    raise PolicyError(f"{name} is {what}, not a length", advice=f"write a text such as {_EXAMPLE}")


def _worth(value: object, source: Provenance) -> Provenance:
    if value != UNKNOWN or source.confidence is not Confidence.GIVEN:
        return source
    return Provenance(source.source, source.read_on, Confidence.NOT_FOUND, source.note)


def _provenance(table: Table) -> Provenance:
    given = table.text("confidence") or Confidence.GIVEN.value
    known = [each.value for each in Confidence]
    if given not in known:
        raise table.error(
            ("confidence",), f"{given!r} is no confidence", did_you_mean(given, known, {})
        )
    return Provenance(
        source=table.text(SOURCE) or table.place,
        read_on=table.day("read_on"),
        confidence=Confidence(given),
        note=table.text("note") or "",
    )
