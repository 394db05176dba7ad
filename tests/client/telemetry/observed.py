"""What OpenTelemetry's own SDK has received from the sink under test, and the events by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from client.clients import START_NS
from replayfloor.client.events import (
    AttemptEnded,
    AttemptLeft,
    AttemptStarted,
    BudgetExhausted,
    ClockWentBack,
    DeadlineFence,
    Ending,
    Event,
    JournalFailed,
    OperationEnded,
    WaitReason,
    WaitStarted,
)
from replayfloor.client.progress import EventFacts
from replayfloor.core.outcome import Outcome

PREFIX = "idempotency.client."
RESEND_COUNT = "http.request.resend_count"


@dataclass
class Observed:
    """The providers that a sink is given, and what came of them."""

    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    tracer_provider: TracerProvider = field(default_factory=TracerProvider)
    meter_provider: MeterProvider = field(init=False)

    def __post_init__(self) -> None:
        self.meter_provider = MeterProvider(metric_readers=[self.reader])
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def metrics(self) -> dict[str, Metric]:
        """Collect, and return every metric by its name."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def histogram(self, name: str) -> HistogramDataPoint:
        """Return the one series of a histogram."""
        (point,) = self.metrics()[PREFIX + name].data.data_points
        assert isinstance(point, HistogramDataPoint)
        return point

    def counts(self, name: str) -> dict[tuple[object, ...], int | float]:
        """Return the values of a metric, by those of its attributes in the order of their names,
        without the provider."""
        metric = self.metrics().get(PREFIX + name)
        found: dict[tuple[object, ...], int | float] = {}
        for point in metric.data.data_points if metric else ():
            value = point.value if isinstance(point, NumberDataPoint) else point.count
            attributes = dict(point.attributes or {})
            assert attributes.pop("idempotency.provider")
            found[tuple(attributes[each] for each in sorted(attributes))] = value
        return found

    def parents(self) -> list[ReadableSpan]:
        """Return the finished spans of calls."""
        return [each for each in self.finished() if each.kind is SpanKind.INTERNAL]

    def parent(self) -> ReadableSpan:
        """Return the span of the only call."""
        (parent,) = self.parents()
        return parent

    def finished(self) -> list[ReadableSpan]:
        """Return every finished span, in the order of their starts."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Return the spans right beneath a span."""
        assert parent.context is not None
        return [
            each
            for each in self.finished()
            if each.parent is not None
            and each.parent.span_id == parent.context.span_id
            and each.parent.trace_id == parent.context.trace_id
        ]


def attributes_of(span: ReadableSpan) -> Mapping[str, object]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


def resend_counts(spans: list[ReadableSpan]) -> list[object]:
    """Return which re-send each span says that it is; None if it says nothing."""
    return [attributes_of(each).get(RESEND_COUNT) for each in spans]


def facts(
    *,
    attempt: int = 1,
    elapsed_s: float = 0.5,
    outcome: Outcome = Outcome.UNKNOWN,
    operation_id: str = "invoice-1",
    retention_s: float | None = 86_400.0,
) -> EventFacts:
    """Return the fields that every event has."""
    return {
        "at_ns": START_NS,
        "provider": "provider",
        "namespace": "provider/acct_1",
        "operation_id": operation_id,
        "method": "POST",
        "origin": "https://api.example.com",
        "attempt": attempt,
        "elapsed_s": elapsed_s,
        "retention_s": retention_s,
        "outcome": outcome,
        "resumed": False,
    }


def attempt_ended(
    told: EventFacts | None = None,
    *,
    status: int | None = None,
    evidence: str = "ReadTimeout: timed out",
    in_flight: bool = False,
    replayed: bool = False,
) -> AttemptEnded:
    """Return the end of an attempt."""
    return AttemptEnded(
        **(told or facts()),
        status=status,
        evidence=evidence,
        took_s=0.25,
        maybe_sent=True,
        in_flight=in_flight,
        replayed=replayed,
    )


def ended(
    ending: Ending, told: EventFacts | None = None, status: int | None = None
) -> OperationEnded:
    """Return the end of a call."""
    return OperationEnded(**(told or facts()), status=status, ending=ending)


def every_event() -> list[Event]:
    """Return an event of each kind."""
    told = facts()
    return [
        AttemptStarted(**told),
        AttemptLeft(**told),
        attempt_ended(told, status=503, evidence="status 503"),
        WaitStarted(**told, wait_s=1.5, reason=WaitReason.RETRY),
        DeadlineFence(**told, begun=True),
        ClockWentBack(**told, behind_s=3.0),
        BudgetExhausted(**told),
        JournalFailed(**told, evidence="disk full"),
        ended(Ending.UNKNOWN, told),
    ]
