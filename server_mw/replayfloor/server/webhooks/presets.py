"""Sources made of what is shipped of a sender in the catalogue. Reads it, and nothing else.

    preset("stripe")
    dataclasses.replace(preset("stripe"), subject="body /data/object/id")

Where an event's id and time are, in what a batch is, when the sender wants its answer and for how
long it delivers again are figures of the catalogue's row. What is added here is said with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.providers import Direction, Figure, ProviderRow, providers
from replayfloor.retention.providers_terms import is_solid, sender
from replayfloor.retention.toml_table import did_you_mean
from replayfloor.server.webhooks.delivery import NoEventId
from replayfloor.server.webhooks.source import WebhookSource

_NONE: Final = "none"
"""As a place in the catalogue: there is no such thing."""


@dataclass(frozen=True, slots=True)
class _Added:
    """What a source has beside its row: as in WebhookSource."""

    busy_status: Literal[409, 503] = 409
    handshake: str | None = None


_NOTHING_ADDED: Final = _Added()

_ADDED: Final[Mapping[str, _Added]] = {
    # Its text names 503 as the status with which Retry-After is taken into account. No other row
    # tells of a status that is taken better than others, and 409 says what is the case.
    "standard-webhooks": _Added(busy_status=503),
    # The endpoint is accepted only if it echoes this value, and events come with none.
    "slack": _Added(handshake="body /challenge"),
}

_CHANGES: Final[Mapping[str, str]] = {
    "wise": "X-Delivery-Id is that of a delivery, and nothing says that retries keep it",
}
"""Rows whose id may be another one with each attempt, and why: not told, it would look like one."""

_READ_BACK: Final = (
    "read the resource back from the sender and act on its state; the key is the resource's id and "
    "the state that was read"
)

_NEWER: Final[Mapping[str, str]] = {
    "mollie": "the sender's next-generation webhooks, whose events are said to have an id",
}
"""What the same sender has beside it, whose events have an id."""


@cache
def preset(name: str) -> WebhookSource:
    """Return the source of a sender by the name of its inbound row in the catalogue.

    The time of an event is left out where only third parties tell where it is: an event that is
    wrongly taken for one past its horizon would be acknowledged, and not applied.

    Raises NoEventId, with the reason and the alternatives, for a sender whose events have none;
    ConfigurationError for a name that is not known, and for a row that is not solid enough.
    """
    row = _row(name)
    event_id = row.figure("event_id")
    place = _place(event_id)
    if place is None or name in _CHANGES:
        raise NoEventId(_without_id(row, event_id))
    if not row.ship:
        raise ConfigurationError(_not_solid(row, place))
    occurred = row.figure("event_time")
    added = _ADDED.get(name, _NOTHING_ADDED)
    return WebhookSource(
        name,
        place,
        _place(occurred) if is_solid(row, occurred) else None,
        attempt=_place(row.figure("attempt")),
        attempt_time=_place(row.figure("attempt_time")),
        batch=_place(row.figure("batching")),
        handshake=added.handshake,
        sender=sender(row),
        ack_deadline_s=row.figure("ack_timeout").safe_s,
        busy_status=added.busy_status,
    )


def preset_names() -> tuple[str, ...]:
    """Return the names for which `preset` returns a source, sorted."""
    return tuple(
        row.name
        for row in providers(Direction.INBOUND)
        if row.ship and row.name not in _CHANGES and _place(row.figure("event_id")) is not None
    )


def _row(name: str) -> ProviderRow:
    rows = {row.name: row for row in providers(Direction.INBOUND)}
    if name in rows:
        return rows[name]
    raise ConfigurationError(
        f"no sender of webhooks {name!r} is shipped: say where its events are, "
        f"{_by_hand(name, '…')}, or {did_you_mean(name, rows, {})}"
    )


def _place(figure: Figure) -> str | None:
    return figure.value if figure.known and figure.value != _NONE else None


def _without_id(row: ProviderRow, event_id: Figure) -> str:
    reason = _CHANGES.get(row.name, event_id.note) or "no source tells where it would be"
    dedupe = row.figure("dedupe")
    advice = [dedupe.value if dedupe.known and row.name not in _CHANGES else _READ_BACK]
    if row.name in _NEWER:
        advice.append(f"use {_NEWER[row.name]}")
    advice.append(f"if something does identify your events, say where: {_by_hand(row.name, '…')}")
    return (
        f"{row.title}: no id of the event is known that each of its deliveries repeats ({reason}), "
        f"so a redelivery cannot be told from a new event. Instead: {'; or '.join(advice)}"
    )


def _not_solid(row: ProviderRow, place: str) -> str:
    return (
        f"{row.title}: what is known of this sender is not solid enough to go by without your "
        f"word. If its webhooks are as the catalogue supposes: {_by_hand(row.name, place)}"
    )


def _by_hand(name: str, event_id: str) -> str:
    """Return how a source is written whose facts are one's own."""
    return (
        f'WebhookSource("{name}", event_id="{event_id}", sender=Sender("{name}", '
        'automatic_retry="…", manual_resend="…"))'
    )
