"""What a crash left in the journal is shown, and a journal that fails is not shown as empty."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.clients import START_NS, FakeTime, Setup, named
from client.loopback import DROP, OK, Loopback
from client.telemetry.observed import Observed
from replayfloor.client import MemoryJournal, OutcomePending, OutcomeUnknown, Profile, SQLiteJournal
from replayfloor.client.journal import Journal
from replayfloor.client.telemetry import OpenTelemetry

DAY_S = 86_400

CRASHING = """
import os, sys, httpx
from replayfloor.client import IdempotentTransport, Profile
from replayfloor.client.events import AttemptLeft

def on_event(event):
    if isinstance(event, AttemptLeft):
        os._exit(9)

transport = IdempotentTransport(
    profile=Profile(name="provider", retention_s=86400),
    journal=f"sqlite:///{sys.argv[1]}",
    on_event=on_event,
    clock=lambda: int(sys.argv[3]),
)
with httpx.Client(transport=transport) as client:
    client.post(sys.argv[2])
"""


GLOBAL = """
from opentelemetry.metrics import set_meter_provider
from client.clients import Setup
from client.loopback import closed_port
from client.telemetry.observed import Observed
from replayfloor.client.telemetry import OpenTelemetry

observed = Observed()
for _ in range(2):
    setup = Setup()
    OpenTelemetry(journal=setup.journal)
    with setup.client() as client:
        try:
            client.post(f"http://127.0.0.1:{closed_port()}/charges")
        except Exception:
            pass
    set_meter_provider(observed.meter_provider)
print(observed.counts("operations.open"))
"""


def _watch(observed: Observed, journal: Journal, time: FakeTime) -> None:
    OpenTelemetry(observed.meter_provider, observed.tracer_provider, journal, clock=time.clock)


def test_an_operation_of_a_process_that_died_is_shown_with_its_age(
    observed: Observed, loopback: Loopback, tmp_path: Path
) -> None:
    path = tmp_path / "outbound.db"
    arguments = [str(path), loopback.url(), str(START_NS)]
    died = subprocess.run([sys.executable, "-c", CRASHING, *arguments], check=False)
    assert died.returncode == 9

    time = FakeTime(START_NS + 7200 * 10**9)
    _watch(observed, SQLiteJournal(path), time)

    assert observed.counts("operations.open") == {("open",): 1}
    assert observed.counts("operation.oldest_age") == {("open",): 7200.0}
    metrics = observed.metrics()
    gauges = ("operations.open", "{operation}"), ("operation.oldest_age", "s")
    for name, unit in gauges:
        metric = metrics[f"idempotency.client.{name}"]
        assert (type(metric.data).__name__, metric.unit) == ("Gauge", unit)


def test_namespaces_are_added_up_states_are_not_and_what_is_done_is_not_shown(
    observed: Observed, loopback: Loopback
) -> None:
    setup = Setup()
    _watch(observed, setup.journal, setup.time)
    loopback.script(DROP)
    loopback.script(OK, path="/ok")
    for account in ("first", "second"):
        namespace = f"provider/{account}"
        setup.profile = Profile(name="provider", namespace=namespace, retention_s=DAY_S)
        with setup.client() as client:
            client.post(loopback.url("/ok"))
            with pytest.raises(OutcomePending):
                client.post(loopback.url(), extensions=named("invoice-1"))
    assert observed.counts("operations.open") == {("open",): 2}

    setup.time.pass_time(DAY_S)
    with setup.client() as client, pytest.raises(OutcomeUnknown):
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert observed.counts("operations.open") == {("open",): 1, ("unknown_final",): 1}
    oldest = observed.counts("operation.oldest_age")
    assert oldest[("open",)] > oldest[("unknown_final",)] >= DAY_S


def _pending(setup: Setup, loopback: Loopback) -> None:
    loopback.script(DROP)
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())


def test_the_journals_of_several_sinks_are_all_shown_each_once(
    observed: Observed, loopback: Loopback
) -> None:
    setups = [Setup(profile=Profile(name=name, retention_s=DAY_S)) for name in ("a", "b", "b")]
    for setup in setups:
        _pending(setup, loopback)
        _watch(observed, setup.journal, setup.time)
        _watch(observed, setup.journal, setup.time)

    points = observed.metrics()["idempotency.client.operations.open"].data.data_points
    found = {(point.attributes or {})["idempotency.provider"]: point for point in points}
    assert {name: getattr(point, "value", None) for name, point in found.items()} == {
        "a": 1,
        "b": 2,
    }


def test_sinks_may_be_made_before_and_after_the_global_provider_is_set() -> None:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", GLOBAL]
    run = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)

    assert run.stdout == "{('open',): 2}\n"


def test_a_journal_that_does_not_answer_is_logged_and_everything_else_is_shown(
    observed: Observed, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    journal = MemoryJournal()
    sink = OpenTelemetry(observed.meter_provider, observed.tracer_provider, journal)
    with Setup(on_event=sink, journal=journal).client() as client:
        client.post(loopback.url())
    journal.close()
    other = Setup()
    _pending(other, loopback)
    _watch(observed, other.journal, other.time)

    with caplog.at_level(logging.WARNING):
        metrics = observed.metrics()

    assert "idempotency.client.attempts" in metrics
    (point,) = metrics["idempotency.client.operations.open"].data.data_points
    assert getattr(point, "value", None) == 1
    assert caplog.messages == ["the journal does not say what is open"] * 2
