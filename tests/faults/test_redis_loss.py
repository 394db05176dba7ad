"""Redis forgets, dies or is replaced while two workers serve: the receipts alone are enough."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from faults.conftest import Stack
from faults.senders import (
    IN_FLIGHT,
    in_background,
    is_replay,
    kind_of,
    post,
    retry,
    wait_for_handler,
)
from support.services import Redis

PAYMENTS = 40
SENDERS = 4
"""Clients that send one payment at the same time, to both workers."""

PAUSE_S = 0.01
"""Between two blows: a request takes about as long, so that blows fall into every part of one."""


def flush(server: Redis) -> None:
    """FLUSHALL."""
    server.flush()


def kill_and_restart(server: Redis) -> None:
    """kill -9; what was written comes back."""
    server.crash()
    server.start()


def replace_by_an_empty_one(server: Redis) -> None:
    """What a failover to a replica does that has received nothing yet."""
    server.crash()
    shutil.rmtree(server.dir / "appendonlydir", ignore_errors=True)
    server.start()


@contextmanager
def again_and_again(blow: Callable[[], None]) -> Generator[list[None]]:
    """Strike until the block ends; count the blows."""
    over, blows, errors = threading.Event(), list[None](), list[Exception]()

    def strike() -> None:
        try:
            while not over.wait(PAUSE_S):
                blow()
                blows.append(None)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread of the test
            errors.append(error)

    striker = threading.Thread(target=strike)
    striker.start()
    try:
        yield blows
    finally:
        over.set()
        striker.join()
    if errors:
        raise errors[0]


def pay(stack: Stack, path: str, payment: str) -> list[httpx.Response]:
    """Send one payment several times at once; each sender repeats it until it is answered."""
    with ThreadPoolExecutor(SENDERS) as pool:
        sent = [
            pool.submit(retry, stack.workers[number % 2], path, payment)
            for number in range(SENDERS)
        ]
    return [each.result() for each in sent]


@pytest.mark.parametrize("blow", [flush, kill_and_restart, replace_by_an_empty_one])
@pytest.mark.parametrize("path", ["/atomic", "/external"])
def test_whatever_happens_to_redis_under_load_every_payment_is_charged_once(
    postgres_stack: Stack, redis_server: Redis, path: str, blow: Callable[[Redis], None]
) -> None:
    payments = [f"{path}-{number}" for number in range(PAYMENTS)]

    with again_and_again(lambda: blow(redis_server)) as blows, ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda each: pay(postgres_stack, path, each), payments))

    for payment, same in zip(payments, answers, strict=True):
        assert {each.status_code for each in same} == {201}, same
        assert len({each.content for each in same}) == 1
        assert sum(not is_replay(each) for each in same) == 1
        assert postgres_stack.ledger.runs(payment) == [same[0].json()["run"]]
    assert len(blows) > 10


@pytest.mark.parametrize("blow", [flush, kill_and_restart, replace_by_an_empty_one])
def test_a_payment_in_flight_is_not_charged_again_when_its_lock_is_gone(
    postgres_stack: Stack, redis_server: Redis, blow: Callable[[Redis], None]
) -> None:
    first, second = postgres_stack.workers
    under_way = in_background(first, "/external", "p1", before="600")
    wait_for_handler(first, "before")

    blow(redis_server)
    refused = post(second, "/external", "p1")
    answer = under_way.result()
    replayed = post(second, "/external", "p1")

    assert kind_of(refused) is IN_FLIGHT
    assert is_replay(replayed)
    assert replayed.content == answer.content
    assert postgres_stack.rows("p1") == 1
