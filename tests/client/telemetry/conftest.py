"""Fixtures of the tests of the sinks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor

from client.telemetry.observed import Observed


@pytest.fixture
def observed() -> Observed:
    """Providers that keep what they receive."""
    return Observed()


@pytest.fixture
def instrumented(observed: Observed) -> Iterator[None]:
    """Both HTTP libraries, patched by OpenTelemetry's own instrumentation."""
    instrumentors = (HTTPXClientInstrumentor(), HTTPX2ClientInstrumentor())
    for each in instrumentors:
        each.instrument(
            tracer_provider=observed.tracer_provider, meter_provider=observed.meter_provider
        )
    yield
    for each in instrumentors:
        each.uninstrument()
