"""What a lease is worth: slow handlers, stalled owners, a store out of reach, wrong clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from faults.conftest import Stack, behind, both_sides, combinations
from faults.senders import (
    IN_FLIGHT,
    UNKNOWN,
    in_background,
    in_thread,
    is_replay,
    kind_of,
    post,
    retry,
    send,
    wait_for,
    wait_for_handler,
)
from replayfloor.core.fingerprint import receipt_id
from replayfloor.server.events import EventKind
from support.failpoints import AT_STEP, COUNTED
from support.fork_server import ForkServer
from support.tcp_proxy import TcpProxy
from support.worker import Worker

LEASE_S = 0.6
SKEW_S = 120.0
OPERATION_S = 0.2
"""How long a worker waits for an operation, in the tests that cut it off from its store."""

takes_over = pytest.mark.parametrize("path", ["/atomic", "/repeatable"])


@pytest.fixture
def lease_s() -> float:
    """Short: every test waits for some leases."""
    return LEASE_S


def id_of(payment: str) -> str:
    """Return the id of the receipt of a payment, as events name it."""
    return receipt_id("default", None, payment).hex()


@combinations("/external")
def test_a_handler_of_several_leases_stays_alone_and_its_duplicates_are_told_when_to_return(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    slow = in_background(first, path, "p1", before=str(round(4 * LEASE_S * 1000)))
    time.sleep(2 * LEASE_S)
    duplicates = [post(worker, path, "p1") for worker in stack.workers]
    answer = slow.result()

    assert [kind_of(each) for each in duplicates] == [IN_FLIGHT, IN_FLIGHT]
    assert all(int(each.headers["retry-after"]) >= 1 for each in duplicates)
    assert answer.status_code == 201
    assert post(second, path, "p1").content == answer.content
    assert stack.ledger.runs("p1") == [answer.json()["run"]]


@combinations("/atomic", "/repeatable")
def test_a_worker_that_stood_still_past_its_lease_changes_neither_effect_nor_receipt(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    stalled = in_background(first, path, "s1", before="300")
    wait_for_handler(first, "before")
    first.freeze()
    answer = retry(second, path, "s1")
    first.thaw()
    late = stalled.result()
    replayed = post(first, path, "s1")

    assert answer.status_code == 201
    assert second.receipts_with(EventKind.TAKEN_OVER) == [id_of("s1")]
    assert kind_of(late) is IN_FLIGHT
    assert id_of("s1") in first.receipts_with(EventKind.LEASE_LOST)
    assert replayed.content == answer.content
    assert is_replay(replayed)
    assert stack.ledger.runs("s1") == [answer.json()["run"]]


@combinations("/atomic", "/repeatable")
def test_a_worker_that_comes_back_while_another_one_has_its_key_is_refused(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    stalled = in_background(first, path, "s2", before="300")
    wait_for_handler(first, "before")
    first.freeze()
    taking_over = in_thread(lambda: retry(second, path, "s2", before="800"))
    wait_for_handler(second, "before")
    first.thaw()
    late = stalled.result()
    answer = taking_over.result()
    replayed = post(first, path, "s2")

    assert kind_of(late) is IN_FLIGHT
    assert (answer.status_code, is_replay(answer)) == (201, False)
    assert replayed.content == answer.content
    assert stack.rows("s2") == 1


# -- an owner that cannot reach its store -----------------------------------------------------


@pytest.fixture
def cut_off(postgres_stack: Stack, proxy: TcpProxy) -> Worker:
    """A worker that can be cut off from its receipts, and soon gives up waiting for them."""
    return behind(proxy, postgres_stack, LEDGER_OPERATION_S=str(OPERATION_S)).start()


@both_sides
@takes_over
def test_an_owner_cut_off_from_the_store_is_told_before_it_commits_and_cannot(
    postgres_stack: Stack, proxy: TcpProxy, cut_off: Worker, path: str
) -> None:
    under_way = in_background(cut_off, path, "c1", before="until-lost", after="1500")
    wait_for_handler(cut_off, "before")

    proxy.hold()
    answer = retry(postgres_stack.workers[0], path, "c1")
    wait_for("the handler being told", lambda: cut_off.pausing("before") == 0)
    proxy.heal()
    late = under_way.result()
    replayed = retry(cut_off, path, "c1", past=[IN_FLIGHT])

    assert id_of("c1") in cut_off.receipts_with(EventKind.LEASE_LOST)

    assert answer.status_code == 201
    assert kind_of(late) is IN_FLIGHT
    assert replayed.content == answer.content
    assert postgres_stack.rows("c1") == 1


@both_sides
def test_an_external_owner_cut_off_from_the_store_is_told_and_nobody_takes_its_place(
    postgres_stack: Stack, proxy: TcpProxy, cut_off: Worker
) -> None:
    under_way = in_background(cut_off, "/external", "c2", before="until-lost", after="1500")
    wait_for_handler(cut_off, "before")

    proxy.hold()
    unknown = retry(postgres_stack.workers[0], "/external", "c2")
    wait_for("the handler being told", lambda: cut_off.pausing("before") == 0)
    proxy.heal()
    late = under_way.result()
    replayed = post(postgres_stack.workers[0], "/external", "c2")

    assert id_of("c2") in cut_off.receipts_with(EventKind.LEASE_LOST)

    assert kind_of(unknown) is UNKNOWN
    assert late.json()["lost"] is True
    assert replayed.content == late.content
    assert postgres_stack.rows("c2") == 1


@both_sides
def test_an_owner_is_told_when_its_lease_has_run_out_however_long_an_operation_may_take(
    postgres_stack: Stack, proxy: TcpProxy
) -> None:
    """Another worker may have the key from then on, so that is when the handler has to know."""
    patient = behind(proxy, postgres_stack, LEDGER_OPERATION_S="5").start()
    under_way = in_background(patient, "/repeatable", "c3", before="until-lost")
    wait_for_handler(patient, "before")

    proxy.hold()
    began = time.monotonic()
    wait_for("the handler to be told", lambda: patient.pausing("before") == 0)
    told_after_s = time.monotonic() - began
    proxy.heal()
    under_way.result()

    assert told_after_s < 2 * LEASE_S


# -- clocks -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fast() -> Iterator[ForkServer]:
    """Workers whose clock is two minutes ahead."""
    with ForkServer(clock_skew_s=SKEW_S) as forks:
        yield forks


@pytest.fixture(scope="module")
def slow() -> Iterator[ForkServer]:
    """Workers whose clock is two minutes behind."""
    with ForkServer(clock_skew_s=-SKEW_S) as forks:
        yield forks


@takes_over
def test_a_worker_whose_clock_is_ahead_does_not_take_over_a_live_lease(
    postgres_stack: Stack, fast: ForkServer, slow: ForkServer, path: str
) -> None:
    ahead, behind = postgres_stack.add(fast).start(), postgres_stack.add(slow).start()
    assert ahead.ask("/ready").json()["time"] - time.time() > SKEW_S - 10
    assert time.time() - behind.ask("/ready").json()["time"] > SKEW_S - 10
    for owner, other in ((behind, ahead), (ahead, behind)):
        payment = f"{path}-{owner.port}"
        under_way = in_background(owner, path, payment, before="500")
        wait_for_handler(owner, "before")
        with redis.Redis.from_url(postgres_stack.lock_url) as lock:
            lock.flushdb()  # so that the receipts have to decide
        duplicate = post(other, path, payment)
        answer = under_way.result()

        assert kind_of(duplicate) is IN_FLIGHT
        assert postgres_stack.ledger.runs(payment) == [answer.json()["run"]]


@takes_over
def test_an_orphan_of_a_worker_whose_clock_is_ahead_is_taken_over_in_time(
    postgres_stack: Stack, fast: ForkServer, slow: ForkServer, path: str
) -> None:
    ahead, behind = postgres_stack.add(fast).start(), postgres_stack.add(slow).start()
    in_background(ahead, path, "o1", before="30000")
    wait_for_handler(ahead, "before")
    ahead.kill()

    assert retry(behind, path, "o1", within_s=LEASE_S + 1).status_code == 201
    assert postgres_stack.rows("o1") == 1


# -- between the lock and the claim -----------------------------------------------------------


@pytest.mark.parametrize("path", ["/atomic", "/external", "/repeatable"])
def test_a_waiter_that_finds_the_lock_free_still_sees_that_the_winner_has_finished(
    postgres_stack: Stack, path: str
) -> None:
    winner = postgres_stack.workers[0]
    stops = {"LEDGER_STEP": "lock.acquire answered", "LEDGER_STEP_SIGNAL": "stop"}
    waiter = postgres_stack.add(LEDGER_WAIT_FOR_S="5", **stops).start()
    first = in_background(winner, path, "w1", before="300")
    wait_for_handler(winner, "before")
    with redis.Redis.from_url(postgres_stack.lock_url) as lock:
        lock.flushdb()  # now the lock is free, and its place does not tell of the winner

    second = in_thread(lambda: send(waiter, path, "w1", {COUNTED.decode(): "1"}))
    wait_for("the waiter to stand still", lambda: AT_STEP in waiter.log())
    answer = first.result()
    waiter.thaw()
    replayed = second.result()

    assert replayed.content == answer.content
    assert is_replay(replayed)
    assert postgres_stack.ledger.runs("w1") == [answer.json()["run"]]
