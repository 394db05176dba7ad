"""Sinks for a transport's `on_event`: OpenTelemetry, the standard logging, a file of JSON lines.

    on_event = all_of(OpenTelemetry(journal=journal), StructuredLog(), JSONLines("calls.jsonl"))
    transport = IdempotentTransport(profile=shop, journal=journal, on_event=on_event)

No sink tells a key; an operation that was begun without an id of its own has its key as id.
"""

from replayfloor.client.telemetry.combined import all_of
from replayfloor.client.telemetry.lines import JSONLines
from replayfloor.client.telemetry.log import StructuredLog
from replayfloor.client.telemetry.otel import OpenTelemetry

__all__ = ["JSONLines", "OpenTelemetry", "StructuredLog", "all_of"]
