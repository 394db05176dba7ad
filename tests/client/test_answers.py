"""Which answers and failures are followed by another attempt, and how a call ends."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import anyio
import httpx
import pytest

from client.clients import PATIENCE_S, PROFILE, START_NS, info, named
from client.loopback import DROP, OK, Loopback, Reply, Step, closed_port, problem
from client.stacks import Stack, StackSetup, on_each_stack_by_turns
from replayfloor.client import JournalUnavailable, OutcomePending
from replayfloor.core.journal import OperationState
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome
from replayfloor.core.problem import (
    answer_not_kept,
    in_flight,
    key_reused,
    outcome_unknown,
    store_unavailable,
)

pytestmark = on_each_stack_by_turns

SLOW = Reply(delay_s=PATIENCE_S)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_an_answer_that_may_change_is_asked_for_again(
    status: int, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(status), OK)
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (201, 2)


@pytest.mark.parametrize("name", ["Idempotent-Replayed", "Idempotency-Replayed"])
@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_replayed_answer_is_the_result_whatever_its_status(
    status: int, name: str, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(DROP, Reply(status, ((name, "true"),)))
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (status, 2)
    assert info(response).replayed
    assert info(response).outcome is Outcome.DEFINITIVE


@pytest.mark.parametrize("status", [200, 202, 302, 400, 401, 402, 403, 404, 409, 413, 422, 501])
def test_any_other_answer_is_returned_at_once(
    status: int, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(status))
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (status, 1)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (201, Outcome.DEFINITIVE),
        (402, Outcome.DEFINITIVE),
        (409, Outcome.DEFINITIVE),
        (401, Outcome.REJECTED),
        (404, Outcome.REJECTED),
        (422, Outcome.REJECTED),
        (501, Outcome.UNKNOWN),
    ],
)
def test_a_first_answer_says_what_is_known(
    status: int, outcome: Outcome, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(status))
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert info(response).outcome is outcome


@pytest.mark.parametrize("status", [401, 403, 404, 405, 409, 410, 413, 422])
def test_a_refusal_after_a_lost_answer_settles_nothing(
    status: int, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(DROP, Reply(status))
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        response = client.post(loopback.url())

    assert response.status_code == status
    assert info(response).outcome is Outcome.UNKNOWN
    assert [entry.state for entry in setup.journal.pending()] == [OperationState.OPEN]


@pytest.mark.parametrize(("status", "open_"), [(201, False), (422, False), (401, True)])
def test_an_answer_ends_the_operation_unless_the_caller_can_mend_the_request(
    status: int, open_: bool, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(status))
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        client.post(loopback.url())

    assert bool(setup.journal.pending()) is open_


def test_in_flight_waits_as_long_as_asked(loopback: Loopback, stack: Stack) -> None:
    loopback.script(problem(in_flight(left_ms=6500).to_response()), OK)
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        response = client.post(loopback.url())

    assert response.status_code == 201
    assert setup.time.waits_s == [7.5]  # 7 s asked, half of the jitter of at most 1 s


def test_an_unknown_outcome_is_asked_for_again_and_then_pending(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(problem(outcome_unknown(10).to_response()))
    setup = StackSetup(stack=stack)
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert len(loopback.received) == 4
    assert min(setup.time.waits_s) >= 10
    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.last_response is not None
    assert caught.value.last_response.json()["retry_after"] == 10


def test_an_answer_that_was_not_kept_is_definitive(loopback: Loopback, stack: Stack) -> None:
    loopback.script(DROP, problem(answer_not_kept(Response(201, (), b"")).to_response()))
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert response.status_code == 409
    assert info(response).outcome is Outcome.DEFINITIVE


def test_a_reused_key_is_returned_and_never_retried(loopback: Loopback, stack: Stack) -> None:
    loopback.script(problem(key_reused(("body",)).to_response()))
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (422, 1)


@pytest.mark.parametrize(
    "refusal", [Reply(429, body=b"slow down"), problem(store_unavailable(1).to_response())]
)
def test_refusals_that_executed_nothing_are_returned_in_the_end(
    refusal: Reply, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(refusal)
    with StackSetup(stack=stack).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, response.content) == (refusal.status, refusal.body)
    assert (info(response).outcome, info(response).attempts) == (Outcome.REJECTED, 4)


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([DROP], "RemoteProtocolError"),
        ([Reply(201, cut=True)], "RemoteProtocolError"),
        ([Reply(503)], "NoneType"),
        ([DROP, Reply(429)], "NoneType"),
    ],
)
def test_an_outcome_that_is_not_known_is_pending(
    steps: list[Step], cause: str, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(*steps)
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url())

    assert len(loopback.received) == 4
    assert type(caught.value.__cause__).__name__ == cause
    assert caught.value.outcome is Outcome.UNKNOWN


def test_a_stalled_server_is_asked_again_and_then_pending(loopback: Loopback, stack: Stack) -> None:
    loopback.script(SLOW)
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url(), timeout=0.05)

    assert isinstance(caught.value.__cause__, stack.read_timeout)
    assert len(loopback.received) == 4


def test_a_connection_that_is_refused_raises_what_httpx_raises(stack: Stack) -> None:
    setup = StackSetup(stack=stack)
    with setup.client() as client, pytest.raises(stack.connect_error):
        client.post(f"http://127.0.0.1:{closed_port()}/")

    assert len(setup.time.waits_s) == 3


def test_a_refused_connection_after_a_lost_answer_is_pending(stack: Stack) -> None:
    """The sticky case: what is true of the last attempt is not true of the operation."""
    setup = StackSetup(stack=stack)

    def vanish(request: httpx.Request) -> httpx.Response:
        raise stack.read_error("reset", request=request)

    with setup.client(stack.mock_transport(vanish)) as client, pytest.raises(OutcomePending):
        client.post("http://127.0.0.1:1/", extensions=named("invoice-1"))
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        client.post("http://127.0.0.1:1/", extensions=named("invoice-1"))

    assert isinstance(caught.value.__cause__, stack.connect_error)


def test_a_full_pool_has_sent_nothing(loopback: Loopback, stack: Stack) -> None:
    setup = StackSetup(stack=stack, connections_max=1)
    loopback.script(Reply(body=b"x" * (1 << 21)), path="/large")
    with (
        setup.client() as client,
        client.stream("POST", loopback.url("/large")),
        pytest.raises(stack.pool_timeout),
    ):
        client.post(loopback.url(), timeout=stack.timeout(PATIENCE_S, pool=0.01))

    assert [each.path for each in loopback.received] == ["/large"]


def test_a_request_that_httpx_cannot_write_is_not_tried_twice(
    loopback: Loopback, stack: Stack
) -> None:
    setup = StackSetup(stack=stack)
    with setup.client() as client, pytest.raises(stack.local_protocol_error):
        client.post(loopback.url(), headers={"X-Bad": "line\nbreak"})
    with setup.client() as client, pytest.raises(stack.unsupported_protocol):
        client.post("gopher://127.0.0.1/")

    assert (loopback.received, setup.time.waits_s) == ([], [])


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        (lambda: "5", 5.5),
        (lambda: formatdate(START_NS / 1e9 + 8, usegmt=True), 8.5),
        (lambda: formatdate(START_NS / 1e9 - 8, usegmt=True), 0.5),
        (lambda: "-3", 0.5),
        (lambda: "soon", 0.5),
    ],
)
def test_retry_after_is_never_undercut(
    value: Callable[[], str], wait_s: float, loopback: Loopback, stack: Stack
) -> None:
    loopback.script(Reply(503, (("Retry-After", value()),)), OK)
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        client.post(loopback.url())

    assert setup.time.waits_s == [wait_s]


def test_a_retry_after_beyond_the_budget_ends_the_call(loopback: Loopback, stack: Stack) -> None:
    loopback.script(DROP, Reply(503, (("Retry-After", "3600"),)))
    setup = StackSetup(stack=stack)
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    assert (len(loopback.received), len(setup.time.waits_s)) == (2, 1)


def test_an_event_sink_that_raises_changes_nothing(
    loopback: Loopback, caplog: pytest.LogCaptureFixture, stack: Stack
) -> None:
    def sink(_: object) -> None:
        raise RuntimeError("the sink is broken")

    loopback.script(DROP, OK)
    with StackSetup(stack=stack, on_event=sink).client() as client:
        response = client.post(loopback.url())

    assert response.status_code == 201
    assert "the sink is broken" in caplog.text


@pytest.mark.parametrize("leak", [OSError("tls"), anyio.EndOfStream(), None])
def test_whatever_leaks_from_below_is_an_outcome_that_is_not_known(
    leak: Exception | None, stack: Stack
) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise leak or stack.read_error("reset")

    setup = StackSetup(stack=stack)
    with (
        setup.client(stack.mock_transport(fail)) as client,
        pytest.raises(OutcomePending) as caught,
    ):
        client.post("https://api.example/")

    assert isinstance(caught.value.__cause__, stack.read_error)


def test_a_done_operation_that_cannot_be_asked_again_says_that_it_is_done(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(OK, DROP)
    with StackSetup(stack=stack).client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))
        with pytest.raises(OutcomePending, match="answered earlier, with status 201") as caught:
            client.post(loopback.url(), extensions=named("invoice-1"))

    assert (caught.value.outcome, caught.value.final_status) == (Outcome.DEFINITIVE, 201)


@pytest.mark.parametrize("way_out", ["with", "close"])
def test_a_transport_closes_the_journal_that_it_opened(
    way_out: str, loopback: Loopback, tmp_path: Path, stack: Stack
) -> None:
    url = f"sqlite:///{tmp_path / 'outbound.db'}"
    transport = stack.transport(profile=PROFILE, journal=url)
    if way_out == "with":
        with stack.client(transport=transport) as client:
            client.post(loopback.url())
    else:
        client = stack.client(transport=transport)
        client.post(loopback.url())
        client.close()

    with pytest.raises(JournalUnavailable, match="was closed"):
        transport.handle_request(stack.request("POST", loopback.url()))
    assert len(loopback.received) == 1
