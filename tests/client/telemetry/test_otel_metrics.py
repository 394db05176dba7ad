"""What is measured of calls over real sockets: names, units, buckets, and that no series is made
of a key or an operation id."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    InMemoryMetricReader,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

from client.clients import PROFILE, Setup, named
from client.loopback import DROP, OK, Loopback, Reply, Step
from client.telemetry.observed import PREFIX, Observed, attempt_ended, ended, every_event, facts
from replayfloor.client import (
    MemoryJournal,
    OutcomePending,
)
from replayfloor.client.events import AttemptLeft, Ending, Event
from replayfloor.client.telemetry import OpenTelemetry, all_of
from replayfloor.client.telemetry.otel_buckets import ELAPSED_BOUNDARIES_S, SHARE_BOUNDARIES
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.outcome import Outcome

UNAVAILABLE = Reply(503)
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK = replace(PROFILE, retention_s=7 * DAY_S)


def _sink(observed: Observed) -> OpenTelemetry:
    return OpenTelemetry(observed.meter_provider, observed.tracer_provider)


# -- names and buckets -----------------------------------------------------------------------------


def test_the_names_kinds_and_units_are_those_that_are_documented(observed: Observed) -> None:
    journal = MemoryJournal()
    sink = OpenTelemetry(observed.meter_provider, observed.tracer_provider, journal)
    told: list[Event] = [
        *every_event(),
        AttemptLeft(**facts(attempt=2)),
        attempt_ended(in_flight=True, replayed=True),
    ]
    for event in told:
        sink(event)

    found = {
        name: (type(metric.data).__name__, metric.unit)
        for name, metric in observed.metrics().items()
    }
    # The gauges have nothing to show: no operation is open.
    assert found == {
        "idempotency.client.operation.duration": ("Histogram", "s"),
        "idempotency.client.resend.elapsed": ("Histogram", "s"),
        "idempotency.client.retention.utilization": ("Histogram", "1"),
        "idempotency.client.attempts": ("Sum", "{attempt}"),
        "idempotency.client.outcome.unknown": ("Sum", "{operation}"),
        "idempotency.client.conflicts": ("Sum", "{conflict}"),
        "idempotency.client.replays": ("Sum", "{answer}"),
        "idempotency.client.fence.blocked": ("Sum", "{attempt}"),
        "idempotency.client.budget.exhausted": ("Sum", "{attempt}"),
        "idempotency.client.journal.errors": ("Sum", "{error}"),
    }


def test_the_boundaries_reach_beyond_every_retention_in_even_steps() -> None:
    assert ELAPSED_BOUNDARIES_S[-1] == 35 * DAY_S
    assert {DAY_S, 7 * DAY_S, 30 * DAY_S} <= set(ELAPSED_BOUNDARIES_S)
    assert all(1.1 < high / low < 3.4 for low, high in pairwise(ELAPSED_BOUNDARIES_S))
    assert SHARE_BOUNDARIES[-1] == 1.0
    assert list(SHARE_BOUNDARIES) == sorted(set(SHARE_BOUNDARIES))


def test_a_tail_of_40_hours_is_in_a_finite_bucket(observed: Observed, loopback: Loopback) -> None:
    loopback.script(*[DROP] * 4, OK)
    setup = Setup(profile=WEEK, on_event=_sink(observed))
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), extensions=named("invoice-1"))
    setup.time.pass_time(40 * HOUR_S)
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))

    for name in ("resend.elapsed", "operation.duration"):
        point = observed.histogram(name)
        assert tuple(point.explicit_bounds) == ELAPSED_BOUNDARIES_S
        assert point.bucket_counts[-1] == 0
        assert point.bucket_counts[ELAPSED_BOUNDARIES_S.index(2 * DAY_S)] == 1
        assert point.max == pytest.approx(40 * HOUR_S, abs=60)


def test_a_view_with_exponential_histograms_takes_the_place_of_the_buckets(
    loopback: Loopback,
) -> None:
    reader = InMemoryMetricReader()
    view = View(
        instrument_type=Histogram,
        instrument_name="idempotency.client.*",
        aggregation=ExponentialBucketHistogramAggregation(),
    )
    observed = Observed(reader=InMemoryMetricReader())
    observed.reader = reader
    observed.meter_provider = MeterProvider(metric_readers=[reader], views=[view])
    loopback.script(UNAVAILABLE, OK)
    with Setup(on_event=_sink(observed)).client() as client:
        client.post(loopback.url())

    for name in ("resend.elapsed", "operation.duration", "retention.utilization"):
        (point,) = observed.metrics()[PREFIX + name].data.data_points
        assert isinstance(point, ExponentialHistogramDataPoint)


# -- series ----------------------------------------------------------------------------------------


def _series(observed: Observed) -> int:
    return sum(len(metric.data.data_points) for metric in observed.metrics().values())


def test_no_series_is_made_of_a_key_or_an_operation_id(
    observed: Observed, loopback: Loopback
) -> None:
    rounds: list[Step] = [OK, UNAVAILABLE, DROP]
    loopback.script(UNAVAILABLE, DROP, *rounds * 20)
    setup = Setup(journal=MemoryJournal())
    setup.on_event = OpenTelemetry(observed.meter_provider, observed.tracer_provider, setup.journal)
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-secret-0", "key-secret-0"))
        series = _series(observed)
        for number in range(1, 10):
            names = named(f"invoice-secret-{number}", f"key-secret-{number}")
            client.post(loopback.url(), extensions=names)

    assert _series(observed) == series
    for metric in observed.metrics().values():
        assert "secret" not in metric.to_json()


# -- beside the call -------------------------------------------------------------------------------


class _Raising(OpenTelemetry):
    """Fails for every event, after it has recorded it."""

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        raise RuntimeError("a sink is broken")


def test_a_sink_that_raises_disturbs_neither_the_call_nor_another_sink(
    observed: Observed, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.script(UNAVAILABLE, OK)
    told: list[Event] = []
    raising = _Raising(observed.meter_provider, observed.tracer_provider)
    setup = Setup(on_event=all_of(raising, told.append))
    with caplog.at_level(logging.ERROR), setup.client() as client:
        assert client.post(loopback.url()).status_code == 201

    assert len(loopback.received) == 2
    assert observed.parent().end_time is not None
    assert {type(event).__name__ for event in told} >= {"AttemptLeft", "OperationEnded"}
    assert len(caplog.records) == len(told)


def test_without_the_api_the_package_can_be_imported_and_the_sink_says_what_lacks() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from replayfloor.client.telemetry import JSONLines, OpenTelemetry, StructuredLog\n"
        "from replayfloor.core.errors import ConfigurationError\n"
        "try: OpenTelemetry()\n"
        "except ConfigurationError as error: sys.exit(str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "replayfloor[otel]" in run.stderr
    assert issubclass(ConfigurationError, ValueError)


def test_outside_of_a_call_an_end_is_taken_for_that_of_its_operation(observed: Observed) -> None:
    """A transport that enters no scope, or events that are passed on by hand."""
    _sink(observed)(ended(Ending.UNKNOWN, facts(outcome=Outcome.UNKNOWN)))

    assert observed.counts("outcome.unknown") == {(): 1}
    assert isinstance(observed.histogram("operation.duration"), HistogramDataPoint)
