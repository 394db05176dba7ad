"""The counters, and which event is counted by which. Needs opentelemetry-api.

An attribute has few values: never a key, a receipt id, a principal, or the text of an exception.
"""

from __future__ import annotations

import re
import threading
from typing import Final, TypeAlias

from opentelemetry.metrics import Meter

from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.webhooks.counts import OTHER_SOURCES, SOURCES_MAX
from replayfloor.server.webhooks.counts_outcome import (
    DeliveryOutcome,
    outcome_of,
    problem_of,
)

PREFIX: Final = "idempotency.server."
EVENT: Final = "idempotency.event"
PROBLEM: Final = "idempotency.problem"
STATUS_CLASS: Final = "idempotency.status_class"
SOURCE: Final = "idempotency.source"
OUTCOME: Final = "idempotency.delivery.outcome"
RETRIED: Final = "idempotency.retried"

Attributes: TypeAlias = dict[str, str | bool]

_STATUS: Final = re.compile(r"[1-5][0-9]{2}", re.ASCII)


class Metrics:
    """What is recorded of the events of all requests. Any thread may use it."""

    def __init__(self, meter: Meter) -> None:
        self._events = meter.create_counter(
            f"{PREFIX}events",
            unit="{event}",
            description="What happened to keyed requests, by kind; several for one request.",
        )
        self._deliveries = meter.create_counter(
            f"{PREFIX}deliveries",
            unit="{delivery}",
            description="Deliveries of webhooks and messages, by source and what became of them.",
        )
        self._unrecognised = meter.create_counter(
            f"{PREFIX}retries.unrecognised",
            unit="{warning}",
            description="Warnings that no repetition of a source is recognised as one.",
        )
        self._sources = _Sources()

    def record(self, event: ServerEvent) -> None:
        """Record an event."""
        self._events.add(1, _event_attributes(event))
        if not event.source:
            return
        source = self._sources.label(event.source)
        if event.kind is EventKind.RETRIES_UNRECOGNISED:
            self._unrecognised.add(1, {SOURCE: source})
        outcome = outcome_of(event)
        if outcome is not None:
            self._deliveries.add(1, _delivery_attributes(event, source, outcome))


class _Sources:
    """The first SOURCES_MAX sources that deliver, each by its name."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def label(self, source: str) -> str:
        if source in self._known:
            return source
        with self._one_at_a_time:
            if len(self._known) < SOURCES_MAX:
                self._known.add(source)
            return source if source in self._known else OTHER_SOURCES


def _event_attributes(event: ServerEvent) -> Attributes:
    attributes: Attributes = {EVENT: event.kind.value}
    match event.kind:
        case EventKind.REFUSED:
            attributes[PROBLEM] = problem_of(event)
        case EventKind.FINISHED | EventKind.FREED if _STATUS.fullmatch(event.detail):
            attributes[STATUS_CLASS] = f"{event.detail[0]}xx"
        case _:
            pass
    return attributes


def _delivery_attributes(event: ServerEvent, source: str, outcome: DeliveryOutcome) -> Attributes:
    attributes: Attributes = {SOURCE: source, OUTCOME: outcome.value}
    if outcome is DeliveryOutcome.REFUSED:
        attributes[PROBLEM] = problem_of(event)
    if event.retried is not None:
        attributes[RETRIED] = event.retried
    return attributes
