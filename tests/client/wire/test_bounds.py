"""What one call may cost, whatever goes wrong: attempts, time, and requests on the wire."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import anyio
import httpx
import pytest
import tenacity

from client.clients import POLICY, START_NS, FakeTime, info, named
from client.loopback import DROP, OK, Loopback, Reply, Step, closed_port, problem
from client.peers.faulty_server import Break, answer, serving_faults
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns, slots_in_use
from replayfloor.client import OutcomePending, OutcomeUnknown, Profile, RetryPolicy
from replayfloor.client.clock import system_clock
from replayfloor.core.outcome import Outcome
from replayfloor.core.problem import in_flight

pytestmark = on_each_stack_by_turns

RETENTION_S = 1000.0
SHORT = Profile(name="provider", retention_s=RETENTION_S)
DEADLINE_NS = START_NS + int((RETENTION_S - 60.0) * 1e9)

# -- time -----------------------------------------------------------------------------------------

BUDGET_S = 0.6
SLACK_S = 1.0
"""What a loaded machine may take on top of a budget."""
REAL = RetryPolicy(attempts_max=50, wait_base_s=0.05, wait_cap_s=0.1, budget_s=BUDGET_S)

STALLS = {
    "no answer": Break(stall_s=BUDGET_S * 3),
    "an answer that dribbles": Break(
        answer=answer(missing=10_000), dribble=b".", dribble_s=BUDGET_S * 3
    ),
}
while_it_stalls = pytest.mark.parametrize("step", STALLS.values(), ids=STALLS)


class _RealTime(FakeTime):
    """Waits for real."""

    def sleep(self, wait_s: float) -> None:
        time.sleep(wait_s)

    async def sleep_async(self, wait_s: float) -> None:
        await anyio.sleep(wait_s)


def _real(stack: Stack) -> StackSetup:
    return StackSetup(stack=stack, retry=REAL, time=_RealTime(), clock=system_clock)


@while_it_stalls
def test_a_server_that_stalls_takes_no_longer_than_the_budget(step: Break, stack: Stack) -> None:
    """The caller has set no time-out, and a body that dribbles never trips one."""
    setup = _real(stack)
    began = time.monotonic()
    with serving_faults() as server:
        server.script(step)
        inner = setup.connections()
        with setup.client(inner) as client:
            with pytest.raises(OutcomePending) as caught:
                client.post(server.url(), timeout=None, extensions=named("invoice-1"))
            assert slots_in_use(inner) == 0
        took_s = time.monotonic() - began

    assert took_s < BUDGET_S + SLACK_S
    assert isinstance(caught.value.__cause__, stack.read_timeout)
    assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.anyio
@on_each_loop
@while_it_stalls
async def test_asynchronously_it_takes_no_longer_either(step: Break, stack: Stack) -> None:
    setup = _real(stack)
    began = time.monotonic()
    with serving_faults() as server:
        server.script(step)
        inner = setup.async_connections()
        async with setup.async_client(inner) as client:
            with pytest.raises(OutcomePending) as caught:
                await client.post(server.url(), timeout=None)
            assert slots_in_use(inner) == 0
        took_s = time.monotonic() - began

    assert took_s < BUDGET_S + SLACK_S
    assert isinstance(caught.value.__cause__, stack.read_timeout)


@pytest.mark.parametrize(
    "moment", ["receive_response_headers.complete", "receive_response_body.started"]
)
def test_an_answer_that_is_whole_when_the_time_is_over_counts(
    moment: str, stack: Stack, loopback: Loopback
) -> None:
    """It has arrived: to throw it away would make an unknown outcome of a known one."""
    setup = StackSetup(stack=stack)

    def trace(name: str, _: object) -> None:
        if name.endswith(moment):
            setup.time.pass_time(2 * POLICY.budget_s)

    with setup.client() as client:
        response = client.post(loopback.url(), extensions={"trace": trace})

    assert (response.status_code, info(response).outcome) == (201, Outcome.DEFINITIVE)
    assert len(loopback.received) == 1


def test_a_wait_that_ends_past_the_send_deadline_is_not_begun(
    stack: Stack, loopback: Loopback
) -> None:
    """The schedule is longer than the provider's memory: it is the memory that counts."""
    loopback.script(DROP, Reply(503, (("Retry-After", "500"),)))
    setup = StackSetup(stack=stack, profile=SHORT, retry=replace(POLICY, budget_s=10_000))
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), extensions=named("invoice-1"))

    # Two answers asked for 500 s each; the second wait would have ended past 940 s.
    assert len(loopback.received) == 3
    assert [wait_s >= 500 for wait_s in setup.time.waits_s] == [False, True]
    assert setup.time.now_ns < DEADLINE_NS


def test_timeouts_and_conflicts_by_turns_are_counted_together(
    stack: Stack, loopback: Loopback
) -> None:
    busy = problem(in_flight(left_ms=500).to_response())
    steps: list[Step] = [DROP, busy]
    loopback.script(*steps * 20)
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url())

    assert len(loopback.received) == caught.value.attempts == POLICY.attempts_max


def test_timeouts_and_conflicts_by_turns_stay_within_the_budget(
    stack: Stack, loopback: Loopback
) -> None:
    busy = problem(in_flight(left_ms=4500).to_response())
    steps: list[Step] = [DROP, busy]
    loopback.script(*steps * 20)
    setup = StackSetup(stack=stack, retry=replace(POLICY, attempts_max=1000))
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url())

    assert POLICY.attempts_max < len(loopback.received) < 40
    assert sum(setup.time.waits_s) <= POLICY.budget_s
    assert caught.value.elapsed_s <= POLICY.budget_s


def test_a_gateway_that_asks_for_patience_is_asked_later_with_the_same_key(
    stack: Stack, loopback: Loopback
) -> None:
    loopback.script(Reply(504, (("Retry-After", "3600"),)), OK)
    setup = StackSetup(stack=stack)
    with setup.client() as client:
        with pytest.raises(OutcomePending) as caught:
            client.post(loopback.url(), extensions=named("invoice-1"))
        setup.time.pass_time(3600)
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert (caught.value.operation_id, caught.value.key) == ("invoice-1", info(response).key)
    assert (response.status_code, info(response).resumed) == (201, True)
    assert len(set(loopback.keys())) == 1


# -- loops around us ------------------------------------------------------------------------------

LOOPS = 3
Post = Callable[[], httpx.Response]


def _around(post: Post, *errors: type[Exception]) -> Post:
    """Return a call in a retry loop of the kind that people put around a client."""
    return tenacity.retry(
        retry=tenacity.retry_if_exception_type(errors),
        stop=tenacity.stop_after_attempt(LOOPS),
        reraise=True,
    )(post)


def test_a_loop_that_retries_transport_errors_does_not_multiply_a_lost_answer(
    stack: Stack, loopback: Loopback
) -> None:
    loopback.script(DROP)
    with StackSetup(stack=stack).client() as client, pytest.raises(OutcomePending):
        _around(lambda: client.post(loopback.url()), stack.transport_error, OSError)()

    assert len(loopback.received) == POLICY.attempts_max


def test_a_loop_that_retries_everything_does_not_get_past_the_deadline(
    stack: Stack, loopback: Loopback
) -> None:
    """Each round is one more call of the operation: with its key, and none once it is over."""
    loopback.script(DROP)
    setup = StackSetup(stack=stack, profile=SHORT)
    with setup.client() as client:

        def post() -> httpx.Response:
            return client.post(loopback.url(), extensions=named("invoice-1"))

        with pytest.raises(OutcomePending):
            _around(post, Exception)()
        before = len(loopback.received)
        setup.time.now_ns = DEADLINE_NS
        with pytest.raises(OutcomeUnknown):
            _around(post, Exception)()

    assert (before, len(loopback.received)) == (LOOPS * POLICY.attempts_max, before)
    assert len(set(loopback.keys())) == 1


# -- credentials, redirects, requests without a key -----------------------------------------------


def test_other_credentials_are_no_other_request(stack: Stack, loopback: Loopback) -> None:
    loopback.script(*[DROP] * POLICY.attempts_max, OK)
    with StackSetup(stack=stack).client() as client:
        options: dict[str, object] = named("invoice-1")
        with pytest.raises(OutcomePending):
            client.post(
                loopback.url(), headers={"Authorization": "Bearer 1"}, extensions=dict(options)
            )
        client.post(loopback.url(), headers={"Authorization": "Bearer 2"}, extensions=options)

    tokens = [each.values("authorization") for each in loopback.received]
    assert tokens == [["Bearer 1"]] * POLICY.attempts_max + [["Bearer 2"]]
    assert len(set(loopback.keys())) == 1


def test_a_post_without_a_key_is_tried_again_only_if_it_was_not_sent(
    stack: Stack, loopback: Loopback
) -> None:
    """Without a profile a server has to show that it knows keys."""
    loopback.script(Reply(delay_s=1.0))
    setup = StackSetup(stack=stack)
    transport = stack.transport(
        setup.connections(),
        profile=None,
        journal=setup.journal,
        retry=POLICY,
        clock=setup.time.clock,
        sleep=setup.time.sleep,
    )
    with stack.client(transport=transport) as client:
        with pytest.raises(stack.connect_error):
            client.post(f"http://127.0.0.1:{closed_port()}/")
        retries = len(setup.time.waits_s)
        with pytest.raises(OutcomePending):
            client.post(loopback.url(), timeout=0.05)

    assert (retries, len(setup.time.waits_s)) == (POLICY.attempts_max - 1, retries)
    assert len(loopback.received) == 1
