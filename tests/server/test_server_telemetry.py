"""The OpenTelemetry listener: what is counted of which event, with few attributes, and no key."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.telemetry import SCOPE, OpenTelemetryEvents
from replayfloor.server.webhooks import counts
from replayfloor.server.webhooks.counts_outcome import DeliveryOutcome, outcome_of

K = EventKind
PREFIX = "idempotency.server."
SECRET = "5ec2e7" * 5 + "00"


def told(
    kind: EventKind, detail: str = "", *, source: str = "", retried: bool | None = None
) -> ServerEvent:
    """Return an event whose receipt id is to be seen nowhere."""
    return ServerEvent(kind, SECRET, detail, source, retried)


@dataclass
class Observed:
    """A listener, and what OpenTelemetry's own SDK has received from it."""

    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    provider: MeterProvider = field(init=False)
    listener: OpenTelemetryEvents = field(init=False)

    def __post_init__(self) -> None:
        self.provider = MeterProvider(metric_readers=[self.reader])
        self.listener = OpenTelemetryEvents(self.provider)

    def take(self, *events: ServerEvent) -> None:
        """Tell the listener."""
        for each in events:
            self.listener(each)

    def counts(self, name: str) -> dict[frozenset[tuple[str, object]], int | float]:
        """Return the values of a counter by their attributes, without the common beginning."""
        data = self.reader.get_metrics_data()
        found: dict[frozenset[tuple[str, object]], int | float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == SCOPE
                for metric in scope.metrics:
                    for point in metric.data.data_points if metric.name == PREFIX + name else ():
                        assert isinstance(point, NumberDataPoint)
                        attributes = dict(point.attributes or {}).items()
                        short = (
                            (key.removeprefix("idempotency."), each) for key, each in attributes
                        )
                        found[frozenset(short)] = point.value
        return found


def having(**attributes: object) -> frozenset[tuple[str, object]]:
    """Return attributes as `Observed.counts` has them; "__" stands for the dot."""
    return frozenset((name.replace("__", "."), value) for name, value in attributes.items())


@pytest.fixture
def observed() -> Observed:
    """A listener with a provider of its own."""
    return Observed()


def test_what_happens_to_requests_is_counted_by_kind(observed: Observed) -> None:
    observed.take(told(K.CLAIMED), told(K.CLAIMED), told(K.REPLAYED), told(K.MAINTAINED))

    assert observed.counts("events") == {
        having(event="claimed"): 2,
        having(event="replayed"): 1,
        having(event="maintained"): 1,
    }


def test_refusals_are_counted_by_problem_and_answers_by_the_class_of_their_status(
    observed: Observed,
) -> None:
    observed.take(
        told(K.REFUSED, "key-reused"),
        told(K.FINISHED, "201"),
        told(K.FREED, "503"),
        told(K.FREED, "OperationalError"),
    )

    assert observed.counts("events") == {
        having(event="refused", problem="key-reused"): 1,
        having(event="finished", status_class="2xx"): 1,
        having(event="freed", status_class="5xx"): 1,
        having(event="freed"): 1,
    }
    assert observed.counts("deliveries") == {}


def test_deliveries_are_counted_by_source_outcome_and_whether_they_are_retries(
    observed: Observed,
) -> None:
    observed.take(
        told(K.CLAIMED, source="shop", retried=False),
        told(K.TAKEN_OVER, source="shop", retried=True),
        told(K.FREED, "503", source="shop", retried=True),
        told(K.REPLAYED, source="bank"),
        told(K.PAST_HORIZON, source="bank"),
        told(K.REFUSED, "in-flight", source="bank"),
        told(K.REFUSED, "invalid-signature", source="bank"),
        told(K.FINISHED, "200", source="bank"),
    )

    assert observed.counts("deliveries") == {
        having(source="shop", delivery__outcome="first", retried=False): 1,
        having(source="shop", delivery__outcome="first", retried=True): 1,
        having(source="shop", delivery__outcome="failed", retried=True): 1,
        having(source="bank", delivery__outcome="duplicate"): 1,
        having(source="bank", delivery__outcome="past-horizon"): 1,
        having(source="bank", delivery__outcome="in-flight"): 1,
        having(source="bank", delivery__outcome="refused", problem="invalid-signature"): 1,
    }


def test_the_warning_is_counted_by_source(observed: Observed) -> None:
    observed.take(told(K.RETRIES_UNRECOGNISED, "shop: 20 or more…", source="shop", retried=True))

    assert observed.counts("retries.unrecognised") == {having(source="shop"): 1}
    assert observed.counts("deliveries") == {}


EVENTS = st.builds(
    told,
    st.sampled_from(EventKind),
    st.one_of(st.sampled_from([kind.value for kind in ProblemKind]), st.just("201"), st.text()),
    source=st.sampled_from(["", "shop", "bank"]),
    retried=st.sampled_from([True, False, None]),
)


@settings(max_examples=40)  # each makes a provider
@given(st.lists(EVENTS, max_size=40))
def test_every_event_is_counted_once_and_no_text_of_one_becomes_an_attribute(
    events: list[ServerEvent],
) -> None:
    observed = Observed()
    observed.take(*events)

    words = {kind.value for kind in (*EventKind, *ProblemKind, *DeliveryOutcome)}
    words |= {"shop", "bank", "other", "2xx"}
    assert sum(observed.counts("events").values()) == len(events)
    deliveries = [each for each in events if each.source and outcome_of(each) is not None]
    assert sum(observed.counts("deliveries").values()) == len(deliveries)
    for name in ("events", "deliveries", "retries.unrecognised"):
        for attributes in observed.counts(name):
            values = {value for _, value in attributes if not isinstance(value, bool)}
            assert values <= words


def test_sources_beyond_the_most_share_one_attribute(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replayfloor.server.telemetry_metrics.SOURCES_MAX", 2)
    for number in (0, 1, 2, 3, 0, 3):
        observed.take(told(K.CLAIMED, source=f"s{number}"))

    found = {dict(each)["source"]: value for each, value in observed.counts("deliveries").items()}
    assert found == {"s0": 2, "s1": 1, counts.OTHER_SOURCES: 3}


def test_threads_share_a_listener_and_nothing_is_lost(observed: Observed) -> None:
    events = [told(K.CLAIMED, source=f"s{number % 3}") for number in range(3000)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(observed.listener, events))

    assert set(observed.counts("deliveries").values()) == {1000}
    assert observed.counts("events") == {having(event="claimed"): 3000}


def test_the_next_listener_is_told_too_whatever_came_of_this_one() -> None:
    told_too: list[ServerEvent] = []
    listener = OpenTelemetryEvents(MeterProvider(), next=told_too.append)
    listener(told(K.CLAIMED))
    listener._metrics = None  # type: ignore[assignment]

    with pytest.raises(AttributeError):
        listener(told(K.REPLAYED))

    assert [each.kind for each in told_too] == [K.CLAIMED, K.REPLAYED]


def test_without_the_api_the_module_can_be_imported_and_the_listener_says_what_lacks() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import replayfloor.server\n"
        "from replayfloor.server.telemetry import OpenTelemetryEvents\n"
        "from replayfloor.core.errors import ConfigurationError\n"
        "try: OpenTelemetryEvents()\n"
        "except ConfigurationError as error: sys.exit(str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "replayfloor[otel]" in run.stderr
