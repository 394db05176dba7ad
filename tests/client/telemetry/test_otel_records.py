"""What of a call is recorded, and when; each operation once, however often it is called."""

from __future__ import annotations

import httpx
import pytest

from client.clients import POLICY, Setup, named
from client.loopback import DROP, OK, Loopback, Reply, closed_port, problem
from client.telemetry.observed import Observed, attempt_ended, ended, facts
from replayfloor.client import (
    JournalUnavailable,
    KeyReuseMismatch,
    MemoryJournal,
    OutcomePending,
    OutcomeUnknown,
)
from replayfloor.client.budget import RetryBudget
from replayfloor.client.events import AttemptLeft, Ending
from replayfloor.client.telemetry import OpenTelemetry
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import EndAttempt, JournalEntry
from replayfloor.core.problem import in_flight

UNAVAILABLE = Reply(503)
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def _sink(observed: Observed) -> OpenTelemetry:
    return OpenTelemetry(observed.meter_provider, observed.tracer_provider)


def test_every_re_send_that_leaves_is_recorded_with_its_share_of_the_retention(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE, UNAVAILABLE, OK)
    setup = Setup(on_event=_sink(observed))
    with setup.client() as client:
        client.post(loopback.url())

    elapsed = observed.histogram("resend.elapsed")
    share = observed.histogram("retention.utilization")
    waits_s = setup.time.waits_s
    assert (elapsed.count, share.count) == (2, 2)
    assert elapsed.sum == pytest.approx(waits_s[0] + sum(waits_s))
    assert share.sum == pytest.approx(elapsed.sum / DAY_S)


def test_a_first_attempt_is_no_re_send(observed: Observed, loopback: Loopback) -> None:
    with Setup(on_event=_sink(observed)).client() as client:
        client.post(loopback.url())

    assert "idempotency.client.resend.elapsed" not in observed.metrics()


def test_a_re_send_that_never_leaves_is_not_recorded(observed: Observed) -> None:
    with Setup(on_event=_sink(observed)).client() as client, pytest.raises(httpx.ConnectError):
        client.post(f"http://127.0.0.1:{closed_port()}/charges")

    assert observed.counts("attempts") == {("not_sent",): POLICY.attempts_max}
    assert "idempotency.client.resend.elapsed" not in observed.metrics()


def test_a_retention_that_is_not_known_has_no_share(observed: Observed) -> None:
    _sink(observed)(AttemptLeft(**facts(attempt=2, retention_s=None)))

    assert observed.histogram("resend.elapsed").count == 1
    assert "idempotency.client.retention.utilization" not in observed.metrics()


def test_attempts_are_counted_by_outcome_and_class_of_status(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(Reply(429), DROP, OK)
    with Setup(on_event=_sink(observed)).client() as client:
        client.post(loopback.url())

    assert observed.counts("attempts") == {
        ("rejected", "4xx"): 1,
        ("unknown",): 1,
        ("definitive", "2xx"): 1,
    }


def test_an_end_says_its_outcome_whether_it_was_resumed_and_what_failed(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(OK, path="/ok")
    loopback.script(Reply(402), path="/refused")
    loopback.script(*[DROP] * 4, OK, path="/resumed")
    with Setup(on_event=_sink(observed)).client() as client:
        client.post(loopback.url("/ok"))
        client.post(loopback.url("/refused"))
        with pytest.raises(OutcomePending):
            client.post(loopback.url("/resumed"), extensions=named("invoice-1"))
        client.post(loopback.url("/resumed"), extensions=named("invoice-1"))
        with pytest.raises(httpx.ConnectError):
            client.post(f"http://127.0.0.1:{closed_port()}/charges")

    assert observed.counts("operation.duration") == {
        ("definitive", False): 1,
        ("402", "definitive", False): 1,
        ("definitive", True): 1,
        ("not_executed", "not_sent", False): 1,
    }


def test_an_operation_that_stays_unknown_is_counted_once_however_often_it_is_called(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(DROP)
    setup = Setup(on_event=_sink(observed))
    with setup.client() as client:
        with pytest.raises(OutcomePending):
            client.post(loopback.url(), extensions=named("invoice-1"))
        setup.time.pass_time(DAY_S)
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                client.post(loopback.url(), extensions=named("invoice-1"))

    assert observed.counts("outcome.unknown") == {(): 1}
    assert observed.counts("fence.blocked") == {(False,): 1}
    assert observed.counts("operation.duration") == {("unknown", "unknown", True): 1}


def test_an_operation_that_was_certainly_not_executed_is_not_counted_as_unknown(
    observed: Observed,
) -> None:
    setup = Setup(on_event=_sink(observed))
    url = f"http://127.0.0.1:{closed_port()}/charges"
    with setup.client() as client:
        with pytest.raises(httpx.ConnectError):
            client.post(url, extensions=named("invoice-1"))
        setup.time.pass_time(DAY_S)
        with pytest.raises(OutcomeUnknown):
            client.post(url, extensions=named("invoice-1"))

    assert observed.counts("fence.blocked") == {(False,): 1}
    assert observed.counts("outcome.unknown") == {}


def test_an_operation_that_is_asked_for_again_later_has_one_duration(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(OK, Reply(headers=(("Idempotent-Replayed", "true"),)))
    setup = Setup(on_event=_sink(observed))
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))
        setup.time.pass_time(HOUR_S)
        client.post(loopback.url(), extensions=named("invoice-1"))

    duration = observed.histogram("operation.duration")
    assert duration.count == 1
    assert duration.max == pytest.approx(0, abs=1)
    assert observed.counts("attempts") == {("definitive", "2xx"): 2}
    assert observed.histogram("resend.elapsed").max == pytest.approx(HOUR_S, abs=1)


def test_conflicts_say_who_was_in_the_way(observed: Observed, loopback: Loopback) -> None:
    loopback.script(problem(in_flight(left_ms=500).to_response()), OK)
    with Setup(on_event=_sink(observed)).client() as client:
        client.post(loopback.url(), content=b"1", extensions=named("invoice-1"))
        with pytest.raises(KeyReuseMismatch):
            client.post(loopback.url(), content=b"2", extensions=named("invoice-1"))

    assert observed.counts("conflicts") == {("in_flight",): 1, ("mismatch",): 1}


def test_replays_say_who_had_kept_the_answer(observed: Observed) -> None:
    sink = _sink(observed)
    sink(attempt_ended(replayed=True))
    sink(ended(Ending.KEPT))

    assert observed.counts("replays") == {("provider",): 1, ("journal",): 1}


def test_a_retry_that_the_budget_does_not_pay_for_is_counted(
    observed: Observed, loopback: Loopback
) -> None:
    loopback.script(UNAVAILABLE)
    setup = Setup(on_event=_sink(observed), budget=RetryBudget(capacity=1))
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    assert observed.counts("budget.exhausted") == {(): 1}


class _Broken(MemoryJournal):
    """Cannot record what an attempt has taught."""

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        raise StoreUnavailable("disk full")


def test_a_journal_that_fails_is_counted(observed: Observed, loopback: Loopback) -> None:
    setup = Setup(on_event=_sink(observed), journal=_Broken())
    with setup.client() as client:
        client.post(loopback.url())

    assert observed.counts("journal.errors") == {(): 1}


def test_a_call_that_could_not_be_begun_is_no_end_of_an_operation(
    observed: Observed, loopback: Loopback
) -> None:
    journal = MemoryJournal()
    journal.close()
    setup = Setup(on_event=_sink(observed), journal=journal)
    with setup.client() as client, pytest.raises(JournalUnavailable):
        client.post(loopback.url())

    assert observed.counts("operation.duration") == {}
    assert observed.counts("journal.errors") == {(): 1}
