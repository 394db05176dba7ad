"""What LocalLock promises beyond the contract: threads, one lock for both sides, bounded memory."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from replayfloor.core.claims import Acquire, Acquired, Extend, Held, Release
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks import open_async_lock, open_lock
from replayfloor.server.locks.local import AsyncLocalLock, LocalLock
from replayfloor.testing.contract import LONG_MS, REQUEST, new_fence, new_id

THREADS = 16
ROUNDS = 400
RACES = 20
LOOK_UP_S = 0.0001
LEASE_S = 30.0
REQUESTS = 20_000


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def request(lease_ms: int = LONG_MS) -> Acquire:
    return Acquire(new_id(), REQUEST, new_fence(), lease_ms)


class SlowId(bytes):
    """An id that lets other threads in whenever it is looked up."""

    def __hash__(self) -> int:
        time.sleep(LOOK_UP_S)
        return super().__hash__()


def test_of_threads_that_race_for_a_lock_one_at_a_time_has_it() -> None:
    lock = LocalLock()
    contested = ReceiptId(SlowId(new_id()))
    inside: list[Acquire] = []
    most: list[int] = []

    def work(_number: int) -> None:
        for _ in range(RACES):
            one = Acquire(contested, REQUEST, new_fence(), LONG_MS)
            if lock.acquire(one) == Acquired():
                inside.append(one)
                most.append(len(inside))
                time.sleep(LOOK_UP_S)  # whoever else believes to have it comes in now
                inside.remove(one)
                assert lock.release(Release(one.id, one.fence))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))

    assert max(most) == 1


def test_threads_that_take_and_release_leave_nothing_behind() -> None:
    lock = LocalLock()

    def work(_number: int) -> None:
        for _ in range(ROUNDS):
            one = request()
            assert lock.acquire(one) == Acquired()
            assert lock.extend(Extend(one.id, one.fence, LONG_MS))
            assert lock.release(Release(one.id, one.fence))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))

    assert lock.entries == 0


def test_requests_that_crashed_do_not_fill_the_memory() -> None:
    """They never release; their entries are dropped when their lease has ended."""
    clock = Clock()
    lock = LocalLock(clock)
    most = 0
    for _ in range(REQUESTS):
        lock.acquire(request(round(LEASE_S * 1000)))
        clock.now_s += LEASE_S / 100
        most = max(most, lock.entries)

    # A hundred leases run at any time.
    assert 100 <= most <= 250


def test_a_wave_of_crashed_requests_is_forgotten_by_and_by() -> None:
    clock = Clock()
    lock = LocalLock(clock)
    for _ in range(REQUESTS):
        lock.acquire(request(round(LEASE_S * 1000)))
    assert lock.entries == REQUESTS
    clock.now_s += LEASE_S
    for _ in range(REQUESTS):
        one = request()
        lock.acquire(one)
        lock.release(Release(one.id, one.fence))

    assert lock.entries == 0


def test_what_still_runs_is_never_forgotten() -> None:
    clock = Clock()
    lock = LocalLock(clock)
    running = [request() for _ in range(50)]
    for one in running:
        lock.acquire(one)
    for _ in range(REQUESTS):
        lock.acquire(request(1))
        clock.now_s += LONG_MS / 1000 / REQUESTS / 2

    for one in running:
        assert isinstance(lock.acquire(Acquire(one.id, REQUEST, new_fence(), LONG_MS)), Held)


@pytest.mark.anyio
async def test_both_sides_of_one_process_can_share_a_lock() -> None:
    shared = LocalLock()
    one = request()
    assert shared.acquire(one) == Acquired()

    again = Acquire(one.id, REQUEST, new_fence(), LONG_MS)
    assert isinstance(await AsyncLocalLock(shared).acquire(again), Held)


def test_local_is_an_option_on_both_sides() -> None:
    assert isinstance(open_lock("local"), LocalLock)
    assert isinstance(open_async_lock("local"), AsyncLocalLock)


# That a process with threads is forked is what this is about (Python 3.12 and later warn of it).
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_while_the_lock_is_taken_is_not_stuck() -> None:
    lock = LocalLock()
    id_ = new_id()
    lock.acquire(Acquire(id_, REQUEST, new_fence(), LONG_MS))
    with lock._one_at_a_time:
        child = os.fork()
        if child == 0:
            again = lock.acquire(Acquire(id_, REQUEST, new_fence(), LONG_MS))
            os._exit(0 if again == Acquired() else 1)
    deadline = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)

    assert os.waitstatus_to_exitcode(ended[1]) == 0
