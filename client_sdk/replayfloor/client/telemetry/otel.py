"""The OpenTelemetry sink. Importing it needs nothing; making one needs opentelemetry-api.

What is recorded is in `otel_metrics` and `otel_gauges`, what is traced in `otel_spans`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from replayfloor.client.clock import Clock, system_clock
from replayfloor.client.events import Event
from replayfloor.client.journal import Journal
from replayfloor.client.telemetry.calls import Calls
from replayfloor.core.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from replayfloor.client.telemetry.otel_spans import Call

SCOPE: Final = "replayfloor.client"
"""The instrumentation scope of every metric and span."""


class OpenTelemetry:
    """Records metrics and spans with the OpenTelemetry API; give it to `on_event`.

    Metrics, each with `idempotency.provider`, none with a key or an operation id. `elapsed` counts
    from the first attempt, over all restarts.

    - `idempotency.client.operation.duration` (histogram, s): elapsed at the end of an operation,
      once for each; `idempotency.outcome`, `idempotency.resumed`, `error.type`.
    - `idempotency.client.resend.elapsed` (histogram, s): elapsed at each re-send that leaves. Its
      largest values are what the provider's retention has to cover.
    - `idempotency.client.retention.utilization` (histogram, 1): that, as a share of the retention.
    - `idempotency.client.operations.open` (gauge) and `idempotency.client.operation.oldest_age`
      (gauge, s): read from `journal`; `idempotency.state` is `open` or `unknown_final`.
    - `idempotency.client.attempts` (counter): `idempotency.outcome`, `idempotency.status_class`.
    - `idempotency.client.outcome.unknown`, `.conflicts` (`idempotency.conflict`: `in_flight` or
      `mismatch`), `.replays` (`idempotency.replayed_by`: `provider` or `journal`),
      `.fence.blocked`, `.budget.exhausted`, `.journal.errors` (counters).

    The histograms advise buckets up to 35 days. Where the backend has exponential histograms, a
    view is better: `View(instrument_type=Histogram, instrument_name="idempotency.client.*",
    aggregation=ExponentialBucketHistogramAggregation())`, all from `opentelemetry.sdk.metrics`.

    Spans: around each call one INTERNAL span, "idempotent {provider} {method}", current while the
    call lasts, so that the CLIENT spans of the HTTP library's instrumentation are its children;
    each of those after the first gets `http.request.resend_count`. It has `idempotency.outcome`,
    `.attempts`, `.elapsed` (s), `.resumed`, `.ending`, and `idempotency.operation.hash`, the first
    16 hex digits of the SHA-256 of the operation id. Its status is ERROR if the call has no answer.

    Instrument the HTTP library (`HTTPXClientInstrumentor().instrument()`) and not a client whose
    transport is ours: `instrument_client` would make one span around the whole call.

    Args:
        meter_provider, tracer_provider: default the global ones.
        journal: whose open operations the gauges show; none are made without it. It is read in
            the thread that collects metrics, and not closed here. Every process that has the
            journal shows all of it: take the maximum over processes, not the sum.
        attempt_spans: make a CLIENT span for each attempt, where no instrumentation does.
        clock: the wall clock, for the age of the oldest operation.

    Raises ConfigurationError without opentelemetry-api.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        journal: Journal | None = None,
        *,
        attempt_spans: bool = False,
        clock: Clock = system_clock,
    ) -> None:
        try:
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer

            from replayfloor.client.telemetry.otel_gauges import gauges_of
            from replayfloor.client.telemetry.otel_metrics import Metrics
            from replayfloor.client.telemetry.otel_spans import Spans
        except ModuleNotFoundError as error:
            message = "telemetry.OpenTelemetry needs opentelemetry-api: install replayfloor[otel]"
            raise ConfigurationError(message) from error
        meter = get_meter(SCOPE, meter_provider=meter_provider)
        self._calls: Calls[Call] = Calls()
        self._metrics = Metrics(meter)
        self._spans = Spans(
            get_tracer(SCOPE, tracer_provider=tracer_provider), attempts=attempt_spans
        )
        if journal is not None:
            gauges_of(meter_provider, meter).add(journal, clock)

    def __call__(self, event: Event) -> None:
        """Record an event."""
        call = self._calls.current()
        if call is None:
            self._metrics.record(event, None)
            return
        call.course.take(event)
        self._metrics.record(event, call.course)
        self._spans.record(call, event)

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        """Make the span of one call, current for as long as it lasts."""
        return self._scope(provider, method)

    @contextmanager
    def _scope(self, provider: str, method: str) -> Generator[None]:
        with self._spans.around(provider, method) as call, self._calls.entered(call):
            yield
