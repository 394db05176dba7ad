"""A worker dies, or stands still, in the middle of a request; another one gets the retry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest
import redis

from faults.conftest import LEASE_S, Stack
from replayfloor.core.problem import ProblemKind, problem_kind
from support.worker import Worker

SLOW_MS = "30000"
WAIT_S = 20.0

WRITE_S = 0.3
"""How long the handler has for its uncommitted write, which nobody else can see."""


def post(worker: Worker, path: str, payment: str, **pauses: str) -> httpx.Response:
    """Send a payment under its own key."""
    headers = {"Idempotency-Key": f'"{payment}"', **{f"x-{k}-ms": v for k, v in pauses.items()}}
    return httpx.post(f"{worker.url}{path}", json={"payment": payment}, headers=headers, timeout=60)


def kind_of(answer: httpx.Response) -> ProblemKind | None:
    return problem_kind(answer.headers.get("content-type", "").encode(), answer.content)


def in_background(worker: Worker, path: str, payment: str, **pauses: str) -> Future[httpx.Response]:
    """Send a payment from a thread that does not hold the test up."""
    future: Future[httpx.Response] = Future()

    def send() -> None:
        try:
            future.set_result(post(worker, path, payment, **pauses))
        except httpx.HTTPError as error:
            future.set_exception(error)

    threading.Thread(target=send, daemon=True).start()
    return future


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)


def retry_until(
    worker: Worker, path: str, payment: str, *, kinds: set[ProblemKind | None]
) -> httpx.Response:
    """Repeat the request, as a client does, until its answer is one of `kinds`."""
    deadline = time.monotonic() + WAIT_S
    while True:
        answer = post(worker, path, payment)
        if kind_of(answer) in kinds:
            return answer
        assert kind_of(answer) is ProblemKind.IN_FLIGHT, answer.text
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_before_the_commit_an_atomic_payment_is_charged_by_the_retry(stack: Stack) -> None:
    first, second = stack.workers
    lost = in_background(first, "/atomic", "a1", before=SLOW_MS)
    wait_for("the claim", lambda: stack.claims() == 1)
    first.kill()
    answer = retry_until(second, "/atomic", "a1", kinds={None})

    assert answer.status_code == 201
    assert stack.rows("a1") == 1
    assert isinstance(lost.exception(WAIT_S), httpx.HTTPError)


def test_killed_after_the_write_an_atomic_payment_is_still_charged_once(
    postgres_stack: Stack,
) -> None:
    first, second = postgres_stack.workers
    in_background(first, "/atomic", "a2", after=SLOW_MS)
    wait_for("the claim", lambda: postgres_stack.claims() == 1)
    time.sleep(WRITE_S)
    first.kill()
    answer = retry_until(second, "/atomic", "a2", kinds={None})

    assert answer.status_code == 201
    assert postgres_stack.rows("a2") == 1


def test_killed_after_the_effect_an_external_payment_is_unknown_and_never_run_again(
    stack: Stack,
) -> None:
    first, second = stack.workers
    in_background(first, "/external", "e1", after=SLOW_MS)
    wait_for("the effect", lambda: stack.rows("e1") == 1)
    first.kill()
    unknown: set[ProblemKind | None] = {ProblemKind.OUTCOME_UNKNOWN}
    answer = retry_until(second, "/external", "e1", kinds=unknown)
    first.start()
    again = post(first, "/external", "e1")

    assert (answer.status_code, again.status_code) == (409, 409)
    assert kind_of(again) is ProblemKind.OUTCOME_UNKNOWN
    assert int(answer.headers["retry-after"]) > 1
    assert stack.rows("e1") == 1


def test_a_worker_that_stood_still_past_its_lease_cannot_commit(postgres_stack: Stack) -> None:
    first, second = postgres_stack.workers
    stalled = in_background(first, "/atomic", "s1", before="1000")
    wait_for("the claim", lambda: postgres_stack.claims() == 1)
    first.freeze()
    time.sleep(LEASE_S)
    answer = retry_until(second, "/atomic", "s1", kinds={None})
    first.thaw()
    late = stalled.result(WAIT_S)
    replayed = post(first, "/atomic", "s1")

    assert answer.status_code == 201
    assert (late.status_code, kind_of(late)) == (409, ProblemKind.IN_FLIGHT)
    assert replayed.content == answer.content
    assert replayed.headers["idempotent-replayed"] == "true"
    assert postgres_stack.rows("s1") == 1


@pytest.mark.parametrize("path", ["/atomic", "/external"])
def test_redis_flushed_at_any_moment_changes_nothing(
    postgres_stack: Stack, redis_url: str, path: str
) -> None:
    lock = redis.Redis.from_url(redis_url)
    flushing = threading.Event()

    def flush() -> None:
        while not flushing.wait(0.005):
            lock.flushall()

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        for number in range(20):
            payment = f"{path[1:]}-flush-{number}"
            with ThreadPoolExecutor(8) as pool:
                sends = [
                    pool.submit(post, worker, path, payment, before="20")
                    for worker in postgres_stack.workers * 4
                ]
            statuses = {send.result().status_code for send in sends}
            replay = post(postgres_stack.workers[0], path, payment)

            assert statuses <= {201, 409}
            assert replay.status_code == 201
            assert postgres_stack.rows(payment) == 1
    finally:
        flushing.set()
        flusher.join()
        lock.close()
