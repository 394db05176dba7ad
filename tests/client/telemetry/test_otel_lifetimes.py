"""The span of a call is the current one while the call lasts, in its own thread or task, and ends
with it, whatever ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from client.clients import PATIENCE_S, named
from client.loopback import OK, Loopback, Reply
from client.stacks import HTTPX, StackSetup, on_each_loop
from client.telemetry.observed import Observed, attributes_of, resend_counts
from replayfloor.client.events import AttemptStarted, Event
from replayfloor.client.telemetry import OpenTelemetry
from replayfloor.client.telemetry.otel_spans import operation_hash

SLOW = Reply(delay_s=PATIENCE_S)
CONCURRENT = 20
SENT_S = 0.05
"""After an attempt has begun: by then it is on its way."""


def _setup(observed: Observed, *, attempt_spans: bool = False) -> StackSetup:
    providers = observed.meter_provider, observed.tracer_provider
    return StackSetup(stack=HTTPX, on_event=OpenTelemetry(*providers, attempt_spans=attempt_spans))


def test_a_call_is_traced_beneath_what_the_application_traces(
    observed: Observed, loopback: Loopback
) -> None:
    tracer = observed.tracer_provider.get_tracer("application")
    with _setup(observed).client() as client, tracer.start_as_current_span("order") as order:
        client.post(loopback.url())
        assert trace.get_current_span() is order

    call, _ = sorted(observed.finished(), key=lambda span: span.name != "idempotent provider POST")
    assert call.parent == order.get_span_context()


async def _cancel_task(client: httpx.AsyncClient, url: str, reached: anyio.Event) -> None:
    task = asyncio.create_task(client.post(url))
    await reached.wait()
    await anyio.sleep(SENT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _cancel_scope(client: httpx.AsyncClient, url: str, reached: anyio.Event) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(client.post, url)
        await reached.wait()
        await anyio.sleep(SENT_S)
        group.cancel_scope.cancel()


Cancel = Callable[[httpx.AsyncClient, str, anyio.Event], Awaitable[None]]


@pytest.mark.parametrize(
    ("anyio_backend", "cancel"),
    [("asyncio", _cancel_task), ("asyncio", _cancel_scope), ("trio", _cancel_scope)],
)
@pytest.mark.anyio
async def test_a_cancelled_call_ends_its_spans(
    cancel: Cancel, observed: Observed, loopback: Loopback
) -> None:
    loopback.script(SLOW)
    reached = anyio.Event()
    setup = StackSetup(stack=HTTPX, on_event=_Watched(observed, reached))
    async with setup.async_client() as client:
        with anyio.fail_after(PATIENCE_S):
            await cancel(client, loopback.url(), reached)

    span = observed.parent()
    (attempt,) = observed.children(span)
    for each in (span, attempt):
        assert each.status.status_code is StatusCode.ERROR
        assert "Cancelled" in str(attributes_of(each)["error.type"])
    assert "idempotency.ending" not in attributes_of(span)
    assert attributes_of(span)["idempotency.attempts"] == 1
    assert trace.get_current_span() is trace.INVALID_SPAN


class _Watched(OpenTelemetry):
    """Says when the first attempt is sent."""

    def __init__(self, observed: Observed, reached: anyio.Event) -> None:
        super().__init__(observed.meter_provider, observed.tracer_provider, attempt_spans=True)
        self._reached = reached

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, AttemptStarted):
            self._reached.set()


def _check_calls(observed: Observed) -> None:
    """Every call has its own attempts: number n was answered by path n, after n % 3 failures."""
    parents = {
        attributes_of(each)["idempotency.operation.hash"]: each for each in observed.parents()
    }
    assert len(parents) == CONCURRENT
    traces = {each.context.trace_id for each in parents.values() if each.context}
    assert len(traces) == CONCURRENT
    for number in range(CONCURRENT):
        attempts = observed.children(parents[operation_hash(f"invoice-{number}")])
        urls = {str(attributes_of(each)["http.url"]) for each in attempts}
        assert [url.rpartition("/")[2] for url in urls] == [str(number)]
        assert resend_counts(attempts) == [None, *range(1, number % 3 + 1)]


def _script_many(loopback: Loopback) -> None:
    for number in range(CONCURRENT):
        failures = [Reply(503, delay_s=0.02)] * (number % 3)
        loopback.script(*failures, Reply(delay_s=0.02), path=f"/{number}")


@on_each_loop
@pytest.mark.anyio
@pytest.mark.usefixtures("instrumented")
async def test_tasks_at_the_same_time_do_not_mix_their_spans(
    observed: Observed, loopback: Loopback
) -> None:
    _script_many(loopback)
    async with _setup(observed).async_client() as client, anyio.create_task_group() as group:

        async def post(number: int) -> None:
            await client.post(loopback.url(f"/{number}"), extensions=named(f"invoice-{number}"))

        for number in range(CONCURRENT):
            group.start_soon(post, number)

    _check_calls(observed)


@pytest.mark.usefixtures("instrumented")
def test_threads_at_the_same_time_do_not_mix_their_spans(
    observed: Observed, loopback: Loopback
) -> None:
    _script_many(loopback)
    together = threading.Barrier(CONCURRENT)
    with _setup(observed).client() as client, ThreadPoolExecutor(CONCURRENT) as pool:

        def post(number: int) -> None:
            together.wait(PATIENCE_S)
            client.post(loopback.url(f"/{number}"), extensions=named(f"invoice-{number}"))

        list(pool.map(post, range(CONCURRENT)))

    _check_calls(observed)


def test_a_trace_that_is_not_recorded_changes_nothing(loopback: Loopback) -> None:
    observed = Observed(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    loopback.script(Reply(503), OK)
    setup = _setup(observed, attempt_spans=True)
    with setup.client() as client:
        assert client.post(loopback.url()).status_code == 201

    assert observed.finished() == []
    assert observed.counts("attempts") == {("unknown", "5xx"): 1, ("definitive", "2xx"): 1}
