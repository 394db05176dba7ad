"""The spans of a call: one around it, and one per attempt if nobody else makes them.

The span around a call is INTERNAL and has no attribute of HTTP: it is not a request. Those of the
attempts are CLIENT spans, usually of the HTTP library's instrumentation, which is beneath us. Needs
opentelemetry-api.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
    use_span,
)

from replayfloor.client.events import AttemptEnded, AttemptLeft, AttemptStarted, Event
from replayfloor.client.telemetry.course import ANSWERED, Course, error_type
from replayfloor.client.telemetry.otel_attempts import ended_attributes, started_attributes
from replayfloor.client.telemetry.otel_exceptions import name_of, note_exceptions
from replayfloor.client.telemetry.otel_metrics import ERROR_TYPE, OUTCOME, PROVIDER, RESUMED

Attributes: TypeAlias = Mapping[str, str | int | float | bool]

RESEND_COUNT: Final = "http.request.resend_count"
"""Absent where the request is sent for the first time (OpenTelemetry, semantic conventions for
HTTP spans)."""

HASH_DIGITS: Final = 16
"""Of SHA-256: enough to find an operation among billions, and not the id itself."""


@dataclass(slots=True)
class Call:
    """One call of a transport: its span, that of the attempt that goes on, what was told."""

    span: Span
    attempt: Span | None = None
    course: Course = field(default_factory=Course)


class Spans:
    """Makes the spans of calls. `attempts`: those of the attempts too."""

    def __init__(self, tracer: Tracer, *, attempts: bool) -> None:
        self._tracer = tracer
        self._attempts = attempts

    @contextmanager
    def around(self, provider: str, method: str) -> Generator[Call]:
        """Make a span, current for as long as the block lasts; it ends however the block ends."""
        name = f"idempotent {provider} {method}"
        span = self._tracer.start_span(name, attributes={PROVIDER: provider})
        call = Call(span)
        raised: BaseException | None = None
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield call
        except BaseException as error:
            raised = error
            raise
        finally:
            try:
                _finish(call, raised)
            finally:
                span.end()

    def record(self, call: Call, event: Event) -> None:
        """Make of an event what belongs on a span; the rest is said when the call is over."""
        match event:
            case AttemptStarted() if self._attempts:
                call.attempt = self._tracer.start_span(
                    event.method,
                    context=set_span_in_context(call.span),
                    kind=SpanKind.CLIENT,
                    attributes={**started_attributes(event), **_resend_count(event)},
                )
            case AttemptLeft():
                _count_resend(event)
            case AttemptEnded() if call.attempt is not None:
                _end_attempt(call, ended_attributes(event))
            case _:
                pass


def operation_hash(operation_id: str) -> str:
    """Return what a span tells of an operation id."""
    return hashlib.sha256(operation_id.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def _resend_count(event: Event) -> Attributes:
    return {RESEND_COUNT: event.attempt - 1} if event.attempt > 1 else {}


def _count_resend(event: AttemptLeft) -> None:
    """Tell the span of the instrumentation, if the HTTP library has one, which attempt it is."""
    current = get_current_span()
    # The API has no `kind`: a span that is not recorded has none, and needs none. Within a call a
    # CLIENT span that is current lies beneath ours, which is none.
    if getattr(current, "kind", None) is SpanKind.CLIENT:
        current.set_attributes(_resend_count(event))


def _end_attempt(call: Call, attributes: Attributes) -> None:
    attempt = call.attempt
    if attempt is None:
        return
    call.attempt = None
    attempt.set_attributes(attributes)
    if ERROR_TYPE in attributes:
        attempt.set_status(Status(StatusCode.ERROR))
    attempt.end()


def _finish(call: Call, raised: BaseException | None) -> None:
    # An attempt whose end was not told: the call was cancelled in it.
    _end_attempt(call, {} if raised is None else {ERROR_TYPE: name_of(raised)})
    span, course = call.span, call.course
    if not span.is_recording():
        return
    if course.last is not None:
        span.set_attributes(_last_attributes(course.last))
    ended = course.ended
    if ended is not None:
        span.set_attribute("idempotency.ending", ended.ending.value)
    failure = error_type(ended) if ended is not None else None
    if raised is not None:
        note_exceptions(span, raised)
        failure = failure or name_of(raised)
    if failure is not None:
        span.set_attribute(ERROR_TYPE, failure)
    if raised is not None or (ended is not None and ended.ending not in ANSWERED):
        span.set_status(Status(StatusCode.ERROR, failure))


def _last_attributes(event: Event) -> Attributes:
    return {
        OUTCOME: event.outcome.label,
        RESUMED: event.resumed,
        "idempotency.attempts": event.attempt,
        "idempotency.elapsed": event.elapsed_s,
        "idempotency.operation.hash": operation_hash(event.operation_id),
    }
