"""The instruments, and which event is recorded by which. Needs opentelemetry-api.

An attribute has few values: never a key or an operation id, and not the namespace either, of which
a platform may have one per customer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from opentelemetry.metrics import Meter

from replayfloor.client.events import (
    AttemptEnded,
    AttemptLeft,
    BudgetExhausted,
    DeadlineFence,
    Ending,
    Event,
    JournalFailed,
    OperationEnded,
)
from replayfloor.client.telemetry.course import Course, concludes, error_type, stays_unknown
from replayfloor.client.telemetry.otel_buckets import ELAPSED_BOUNDARIES_S, SHARE_BOUNDARIES

PREFIX: Final = "idempotency.client."
PROVIDER: Final = "idempotency.provider"
OUTCOME: Final = "idempotency.outcome"
RESUMED: Final = "idempotency.resumed"
STATUS_CLASS: Final = "idempotency.status_class"
CONFLICT: Final = "idempotency.conflict"
REPLAYED_BY: Final = "idempotency.replayed_by"
BEGUN: Final = "idempotency.begun"
ERROR_TYPE: Final = "error.type"

Attributes: TypeAlias = Mapping[str, str | bool]

_COUNTERS: Final = {
    "attempts": ("{attempt}", "Attempts that have ended, by what is known after them."),
    "outcome.unknown": ("{operation}", "Operations of which nobody knows whether they happened."),
    "conflicts": ("{conflict}", "Requests that met another one under their key or operation id."),
    "replays": ("{answer}", "Answers that were stored before, by the provider or the journal."),
    "fence.blocked": ("{attempt}", "Attempts held back because the send deadline had passed."),
    "budget.exhausted": ("{attempt}", "Attempts held back because too many have failed."),
    "journal.errors": ("{error}", "Writes of the journal that failed."),
}


class Metrics:
    """What is recorded of the events of all calls."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            f"{PREFIX}operation.duration",
            unit="s",
            description="From the first attempt to the end of an operation, over all restarts.",
            explicit_bucket_boundaries_advisory=ELAPSED_BOUNDARIES_S,
        )
        self._elapsed = meter.create_histogram(
            f"{PREFIX}resend.elapsed",
            unit="s",
            description="From the first attempt to each re-send: what a retention has to cover.",
            explicit_bucket_boundaries_advisory=ELAPSED_BOUNDARIES_S,
        )
        self._share = meter.create_histogram(
            f"{PREFIX}retention.utilization",
            unit="1",
            description="The elapsed time of each re-send, as a share of the retention.",
            explicit_bucket_boundaries_advisory=SHARE_BOUNDARIES,
        )
        self._counters = {
            name: meter.create_counter(f"{PREFIX}{name}", unit=unit, description=description)
            for name, (unit, description) in _COUNTERS.items()
        }

    def record(self, event: Event, course: Course | None) -> None:
        """Record an event; `course` is what its call told before, if that is known."""
        match event:
            case AttemptLeft():
                self._left(event)
            case AttemptEnded():
                self._attempt_ended(event)
            case DeadlineFence():
                self._count("fence.blocked", event, {BEGUN: event.begun})
            case BudgetExhausted():
                self._count("budget.exhausted", event)
            case JournalFailed():
                self._count("journal.errors", event)
            case OperationEnded():
                self._ended(event, course)
            case _:
                pass

    def _left(self, event: AttemptLeft) -> None:
        if event.attempt <= 1:
            return
        attributes = {PROVIDER: event.provider}
        self._elapsed.record(event.elapsed_s, attributes)
        if event.retention_s:
            self._share.record(event.elapsed_s / event.retention_s, attributes)

    def _attempt_ended(self, event: AttemptEnded) -> None:
        status = {} if event.status is None else {STATUS_CLASS: f"{event.status // 100}xx"}
        self._count("attempts", event, {OUTCOME: event.outcome.label, **status})
        if event.in_flight:
            self._count("conflicts", event, {CONFLICT: "in_flight"})
        if event.replayed:
            self._count("replays", event, {REPLAYED_BY: "provider"})

    def _ended(self, event: OperationEnded, course: Course | None) -> None:
        if event.ending is Ending.MISMATCH:
            self._count("conflicts", event, {CONFLICT: "mismatch"})
        if event.ending is Ending.KEPT:
            self._count("replays", event, {REPLAYED_BY: "journal"})
        if not concludes(event, course):
            return
        if stays_unknown(event):
            self._count("outcome.unknown", event)
        attributes: dict[str, str | bool] = {
            PROVIDER: event.provider,
            OUTCOME: event.outcome.label,
            RESUMED: event.resumed,
        }
        failure = error_type(event)
        if failure is not None:
            attributes[ERROR_TYPE] = failure
        self._duration.record(event.elapsed_s, attributes)

    def _count(self, name: str, event: Event, attributes: Attributes | None = None) -> None:
        self._counters[name].add(1, {PROVIDER: event.provider, **(attributes or {})})
