"""An event as plain values, for sinks that write it down. What is written where is not here."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import TypeAlias

from replayfloor.client.events import Event
from replayfloor.core.outcome import Outcome

Plain: TypeAlias = str | int | float | bool | None


def plain_fields(event: Event) -> dict[str, Plain]:
    """Return every field of an event by its name; an Outcome by its name, other enums by value."""
    return {field.name: _plain(getattr(event, field.name)) for field in fields(event)}


def _plain(value: Plain | Enum) -> Plain:
    match value:
        case Outcome():
            return value.name
        case Enum():
            plain: Plain = value.value
            return plain
        case _:
            return value
