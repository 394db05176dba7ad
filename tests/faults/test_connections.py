"""Connections fail or do too much, on either side of a worker: one effect, and its true answer."""

from __future__ import annotations

import time

import httpx
import pytest

from faults.conftest import Stack, behind, both_sides, combinations
from faults.senders import (
    IN_FLIGHT,
    UNAVAILABLE,
    in_background,
    is_replay,
    kind_of,
    post,
    retry,
    send,
    wait_for,
    wait_for_handler,
)
from replayfloor.server.events import EventKind
from replayfloor.testing.proxy import FaultProxy, serving
from replayfloor.testing.proxy_plan import Duplicate
from support.tcp_proxy import TcpProxy

slow = pytest.mark.slow
postgres_on_both_sides = pytest.mark.parametrize(
    ("side", "path"),
    [
        ("asgi", "/atomic"),
        ("asgi", "/external"),
        pytest.param("asgi", "/repeatable", marks=slow),
        ("wsgi", "/atomic"),
        pytest.param("wsgi", "/external", marks=slow),
        pytest.param("wsgi", "/repeatable", marks=slow),
    ],
)

GONE_AFTER_S = 0.2
BACKGROUND_S = 1.0
PROMPTLY_S = 0.5
"""Half of the background task: what waits for the task takes longer, a busy machine does not."""


# -- between client and worker ----------------------------------------------------------------


@combinations("/atomic", "/external", "/repeatable")
def test_a_client_that_hangs_up_during_the_handler_finds_the_real_result_later(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    with pytest.raises(httpx.ReadTimeout):
        send(first, path, "h1", {"x-before-ms": "50", "x-after-ms": "600"}, GONE_AFTER_S)
    at_once = post(second, path, "h1")
    later = retry(second, path, "h1")

    # SQLite makes it wait for the transaction of the handler, and then there is a receipt.
    assert kind_of(at_once) is IN_FLIGHT or is_replay(at_once)
    assert is_replay(later)
    assert stack.ledger.runs("h1") == [later.json()["run"]]


@combinations("/atomic", "/external", "/repeatable")
def test_a_request_that_a_proxy_sends_twice_is_executed_once(stack: Stack, path: str) -> None:
    payments = [f"d{number}" for number in range(5)]
    proxy = FaultProxy(stack.workers[0].port, lambda number: Duplicate(gap_s=0.005))
    with serving(proxy):
        answers = [post(proxy.url, path, payment, before="20") for payment in payments]
        wait_for("the second copies", lambda: proxy.done[Duplicate] == len(payments))

    for payment, answer in zip(payments, answers, strict=True):
        settled = retry(stack.workers[1], path, payment)
        assert answer.content == settled.content or kind_of(answer) is IN_FLIGHT
        assert stack.ledger.runs(payment) == [settled.json()["run"]]


def test_an_answer_does_not_wait_for_the_background_task_and_the_task_runs_once(
    stack: Stack,
) -> None:
    began = time.monotonic()
    answer = post(stack.workers[0], "/background", "b1", after=str(int(BACKGROUND_S * 1000)))
    replayed = post(stack.workers[1], "/background", "b1")
    took_s = time.monotonic() - began
    assert stack.rows("b1") == 0
    wait_for("the task", lambda: stack.rows("b1") == 1)
    again = post(stack.workers[0], "/background", "b1")
    time.sleep(GONE_AFTER_S)

    assert took_s < PROMPTLY_S
    assert answer.content == replayed.content == again.content
    assert is_replay(replayed)
    assert stack.ledger.runs("b1") == [answer.json()["run"]]


# -- between worker and Postgres --------------------------------------------------------------


@postgres_on_both_sides
def test_a_claim_that_arrived_and_whose_answer_did_not_is_no_obstacle(
    postgres_stack: Stack, proxy: TcpProxy, path: str
) -> None:
    worker = behind(proxy, postgres_stack).start()
    post(worker, path, "warm")

    proxy.lose_answer(to=b"claim_", times=1)
    answer = post(worker, path, "l1")

    assert proxy.lost == 1
    assert answer.status_code == 201
    assert postgres_stack.ledger.runs("l1") == [answer.json()["run"]]


@postgres_on_both_sides
def test_a_request_refused_because_no_claim_was_answered_can_be_repeated_at_once(
    postgres_stack: Stack, proxy: TcpProxy, path: str
) -> None:
    worker = behind(proxy, postgres_stack).start()
    post(worker, path, "warm")

    proxy.lose_answer(to=b"claim_", times=2)
    refused = post(worker, path, "l2")
    answer = post(worker, path, "l2")

    assert proxy.lost == 2
    assert kind_of(refused) is UNAVAILABLE
    assert (answer.status_code, is_replay(answer)) == (201, False)
    assert postgres_stack.ledger.runs("l2") == [answer.json()["run"]]


@postgres_on_both_sides
def test_a_receipt_that_arrived_and_whose_confirmation_did_not_is_replayed(
    postgres_stack: Stack, proxy: TcpProxy, path: str
) -> None:
    worker = behind(proxy, postgres_stack).start()
    post(worker, path, "warm")

    proxy.lose_answer(to=b"COMMIT" if path == "/atomic" else b"finish_", times=1)
    answer = post(worker, path, "l3")
    replayed = post(postgres_stack.workers[0], path, "l3")

    assert proxy.lost == 1
    assert answer.status_code == 201
    assert is_replay(replayed)
    assert replayed.content == answer.content
    assert postgres_stack.ledger.runs("l3") == [answer.json()["run"]]
    assert postgres_stack.claims() == 0
    assert worker.receipts_with(EventKind.RECEIPT_LOST) == []


@both_sides
def test_a_worker_that_lost_every_connection_to_postgres_serves_the_next_request(
    postgres_stack: Stack, proxy: TcpProxy
) -> None:
    worker = behind(proxy, postgres_stack).start()
    post(worker, "/atomic", "warm")

    proxy.cut()
    proxy.heal()
    answer = post(worker, "/atomic", "l4")

    assert answer.status_code == 201
    assert postgres_stack.ledger.runs("l4") == [answer.json()["run"]]


@both_sides
def test_an_atomic_handler_whose_connection_is_cut_changes_nothing_and_its_key_is_free(
    postgres_stack: Stack, proxy: TcpProxy
) -> None:
    worker = behind(proxy, postgres_stack).start()
    under_way = in_background(worker, "/atomic", "l5", after="300")
    wait_for_handler(worker, "after")

    proxy.cut()
    proxy.heal()
    failed = under_way.result()
    answer = post(worker, "/atomic", "l5")

    assert kind_of(failed) is UNAVAILABLE
    assert (answer.status_code, is_replay(answer)) == (201, False)
    assert postgres_stack.ledger.runs("l5") == [answer.json()["run"]]
