"""One span per call, whatever ends it; the spans of its attempts are its children."""

from __future__ import annotations

import httpx
import pytest
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from client.clients import NO_TLS, Setup, named
from client.loopback import DROP, OK, Loopback, Reply, closed_port
from client.stacks import HTTPX, Stack, StackSetup, on_each_loop, on_each_stack
from client.telemetry.observed import Observed, attributes_of, resend_counts
from replayfloor.client import MemoryJournal, OutcomePending, OutcomeUnknown
from replayfloor.client.telemetry import OpenTelemetry
from replayfloor.client.telemetry.otel_spans import operation_hash

UNAVAILABLE = Reply(503)


def _sink(observed: Observed, *, attempt_spans: bool = False) -> OpenTelemetry:
    return OpenTelemetry(
        observed.meter_provider, observed.tracer_provider, attempt_spans=attempt_spans
    )


def _setup(observed: Observed, stack: Stack = HTTPX) -> StackSetup:
    return StackSetup(stack=stack, on_event=_sink(observed))


def _of_one_call(observed: Observed) -> list[ReadableSpan]:
    """Return the attempts of the only call; nothing else was traced."""
    attempts = observed.children(observed.parent())
    assert all(each.kind is SpanKind.CLIENT for each in attempts)
    assert len(observed.finished()) == 1 + len(attempts)
    return attempts


# -- above an instrumented library -----------------------------------------------------------------


@on_each_stack
@pytest.mark.usefixtures("instrumented")
def test_the_attempts_of_a_call_are_in_one_trace_and_are_numbered(
    stack: Stack, observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, DROP, UNAVAILABLE, OK)
    with _setup(observed, stack).client() as client:
        client.post(loopback.url())

    assert resend_counts(_of_one_call(observed)) == [None, 1, 2, 3]


@on_each_loop
@on_each_stack
@pytest.mark.anyio
@pytest.mark.usefixtures("instrumented")
async def test_the_attempts_of_an_async_call_are_in_one_trace_and_are_numbered(
    stack: Stack, observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, DROP, UNAVAILABLE, OK)
    async with _setup(observed, stack).async_client() as client:
        await client.post(loopback.url())

    assert resend_counts(_of_one_call(observed)) == [None, 1, 2, 3]


@pytest.mark.usefixtures("instrumented")
def test_the_attempts_after_a_restart_are_numbered_on(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(*[DROP] * 4, UNAVAILABLE, OK)
    setup = _setup(observed)
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), extensions=named("invoice-1"))
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))

    first, second = observed.parents()
    assert resend_counts(observed.children(first)) == [None, 1, 2, 3]
    assert resend_counts(observed.children(second)) == [4, 5]


@pytest.mark.usefixtures("instrumented")
def test_the_header_that_names_the_trace_is_that_of_the_attempt(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, OK)
    with _setup(observed).client() as client:
        client.post(loopback.url())

    sent = [received.values("traceparent")[0].split("-")[1:3] for received in loopback.received]
    spans = [each.context for each in _of_one_call(observed)]
    assert sent == [[f"{c.trace_id:032x}", f"{c.span_id:016x}"] for c in spans if c]


def test_a_span_around_the_transport_is_not_numbered(
    observed: Observed, loopback: Loopback
) -> None:
    """`instrument_client` wraps the transport that the client has: ours, with all its attempts."""
    loopback.script(UNAVAILABLE, OK)
    with _setup(observed).client() as client:
        HTTPXClientInstrumentor.instrument_client(client, observed.tracer_provider)
        client.post(loopback.url())

    around, call = observed.finished()
    assert (around.kind, resend_counts([around])) == (SpanKind.CLIENT, [None])
    assert observed.children(around) == [call]


class _Traced(httpx.HTTPTransport):
    """An application's own, which traces what it does around each attempt."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(verify=NO_TLS)
        self._tracer = observed.tracer_provider.get_tracer("application")

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._tracer.start_as_current_span("signing"):
            return super().handle_request(request)


def test_a_span_beneath_the_call_that_is_not_of_a_client_is_not_numbered(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, OK)
    with _setup(observed).client(_Traced(observed)) as client:
        client.post(loopback.url())

    spans = [each for each in observed.finished() if each.name == "signing"]
    assert resend_counts(spans) == [None, None]


# -- what the span of a call says ------------------------------------------------------------------


def test_the_span_of_a_call_says_how_it_ended_and_nothing_of_http(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, OK)
    with _setup(observed).client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))

    span = observed.parent()
    assert (span.name, span.status.status_code) == ("idempotent provider POST", StatusCode.UNSET)
    assert attributes_of(span) == {
        "idempotency.provider": "provider",
        "idempotency.outcome": "definitive",
        "idempotency.attempts": 2,
        "idempotency.elapsed": pytest.approx(1.0, abs=1),
        "idempotency.resumed": False,
        "idempotency.ending": "returned",
        "idempotency.operation.hash": operation_hash("invoice-1"),
    }
    assert span.events == ()


def test_a_call_without_an_answer_is_an_error_with_its_exception_and_the_cause(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(DROP)
    with _setup(observed).client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    span = observed.parent()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["idempotency.ending"] == "pending"
    assert attributes_of(span)["error.type"] == "pending"
    kinds = [str((event.attributes or {})["exception.type"]) for event in span.events]
    assert [kind.rpartition(".")[2] for kind in kinds[:2]] == [
        "OutcomePending",
        "RemoteProtocolError",
    ]


def test_a_call_that_nothing_can_answer_any_more_is_an_error(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(DROP)
    setup = _setup(observed)
    with setup.client() as client:
        with pytest.raises(OutcomePending):
            client.post(loopback.url(), extensions=named("invoice-1"))
        setup.time.pass_time(setup.profile.retention_s or 0)
        with pytest.raises(OutcomeUnknown):
            client.post(loopback.url(), extensions=named("invoice-1"))

    last = observed.parents()[-1]
    assert last.status.status_code is StatusCode.ERROR
    assert attributes_of(last)["idempotency.ending"] == "unknown"


def test_a_call_that_executed_nothing_is_an_error_with_the_exception_of_the_library(
    observed: Observed,
) -> None:
    with _setup(observed).client() as client, pytest.raises(httpx.ConnectError):
        client.post(f"http://127.0.0.1:{closed_port()}/charges")

    span = observed.parent()
    assert attributes_of(span)["error.type"] == "not_executed"
    attributes = span.events[0].attributes or {}
    assert attributes["exception.type"] == "httpx.ConnectError"
    assert "refused" in str(attributes["exception.message"])


def test_an_answer_that_the_journal_kept_is_no_error(
    observed: Observed, loopback: Loopback
) -> None:
    journal = MemoryJournal()
    transport = HTTPX.transport(
        profile=Setup().profile, journal=journal, keep_responses=True, on_event=_sink(observed)
    )
    with httpx.Client(transport=transport) as client:
        client.post(loopback.url(), extensions=named("invoice-1"))
        client.post(loopback.url(), extensions=named("invoice-1"))

    last = observed.parents()[-1]
    assert attributes_of(last)["idempotency.ending"] == "kept"
    assert last.status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("instrumented")
def test_no_span_tells_a_key_or_an_operation_id(observed: Observed, loopback: Loopback) -> None:
    loopback.script(DROP)
    setup = _setup(observed)
    with setup.client() as client:
        for body in (b"1", b"2"):
            with pytest.raises(httpx.HTTPError, match="invoice-secret"):
                client.post(
                    loopback.url(), content=body, extensions=named("invoice-secret", "key-secret")
                )

    told = "".join(span.to_json() for span in observed.finished())
    assert "exception.stacktrace" in told
    assert "secret" not in told


# -- without an instrumented library ---------------------------------------------------------------


def test_attempts_have_no_span_unless_asked_for(observed: Observed, loopback: Loopback) -> None:
    with _setup(observed).client() as client:
        client.post(loopback.url())

    assert observed.finished() == [observed.parent()]


def test_attempts_have_a_span_of_their_own_if_asked_for(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, DROP, OK)
    setup = StackSetup(stack=HTTPX, on_event=_sink(observed, attempt_spans=True))
    with setup.client() as client:
        client.post(loopback.url())

    attempts = _of_one_call(observed)
    assert [each.name for each in attempts] == ["POST"] * 3
    assert resend_counts(attempts) == [None, 1, 2]
    where = {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": loopback.port,
    }
    told = [dict(attributes_of(each)) for each in attempts]
    assert [each.items() >= where.items() for each in told] == [True] * 3
    assert [each.get("http.response.status_code") for each in told] == [503, None, 201]
    assert [each.get("error.type") for each in told] == ["503", "RemoteProtocolError", None]
    states = [each.status.status_code for each in attempts]
    assert states == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert attempts[0].end_time is not None
    assert attempts[1].start_time is not None
    assert attempts[0].end_time <= attempts[1].start_time
