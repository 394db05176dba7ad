"""The OpenTelemetry listener. Importing it needs nothing; making one needs opentelemetry-api.

What is recorded of which event is in `telemetry_metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.events import ServerEvent
from replayfloor.server.options import OnEvent

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

SCOPE: Final = "replayfloor.server"
"""The instrumentation scope of every metric."""


class OpenTelemetryEvents:
    """Counts events with the OpenTelemetry API; give it to a middleware as `on_event`.

    - `idempotency.server.events`: everything that is told; `idempotency.event` is the EventKind,
      `idempotency.problem` which refusal a `refused` is, `idempotency.status_class` ("2xx") that of
      the answer, where one was stored or has freed the key.
    - `idempotency.server.deliveries`: deliveries of webhooks and messages, by `idempotency.source`
      and `idempotency.delivery.outcome`, a DeliveryOutcome; `idempotency.problem` if it was
      refused; `idempotency.retried` if the sender says whether it is a repetition. "failed" comes
      in addition to "first". The hit rate is duplicate / (first + duplicate).
    - `idempotency.server.retries.unrecognised`: how often it was told that no repetition of an
      `idempotency.source` is recognised. One is worth an alert.

    No attribute has a key, a receipt id, a principal or anything of a payload, and each has few
    values: of sources at most SOURCES_MAX, and OTHER_SOURCES. May be shared by several middlewares.

    Args:
        meter_provider: default the global one.
        next: another listener, which is told of each event afterwards, whatever came of this.

    Raises ConfigurationError without opentelemetry-api.
    """

    def __init__(
        self, meter_provider: MeterProvider | None = None, next: OnEvent | None = None
    ) -> None:
        try:
            from opentelemetry.metrics import get_meter

            from replayfloor.server.telemetry_metrics import Metrics
        except ModuleNotFoundError as error:
            message = (
                "telemetry.OpenTelemetryEvents needs opentelemetry-api: install replayfloor[otel]"
            )
            raise ConfigurationError(message) from error
        self._metrics = Metrics(get_meter(SCOPE, meter_provider=meter_provider))
        self._next = next

    def __call__(self, event: ServerEvent) -> None:
        """Count an event."""
        try:
            self._metrics.record(event)
        finally:
            if self._next is not None:
                self._next(event)
