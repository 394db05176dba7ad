"""Work in threads: the caller goes on only after its thread ended, however it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

import anyio
import pytest

from replayfloor.server.shield import here_or_to_the_end, in_thread, is_free

pytestmark = pytest.mark.anyio


class Work:
    """Blocks in its thread until it is let go."""

    def __init__(self) -> None:
        self.started, self.free = threading.Event(), threading.Event()
        self.ended = False

    def __call__(self) -> str:
        self.started.set()
        assert self.free.wait(10)
        self.ended = True
        return "done"

    async def until_started(self) -> None:
        for _ in range(2000):
            if self.started.is_set():
                return
            await anyio.sleep(0.005)
        raise AssertionError("not started")


async def test_the_result_is_returned() -> None:
    assert await in_thread(lambda: threading.current_thread().name) != "MainThread"


@pytest.mark.parametrize("error", [ValueError("v"), TimeoutError("t"), StopIteration("s")])
async def test_an_exception_of_the_work_comes_out_as_it_is(error: Exception) -> None:
    def work() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)) as raised:
        await in_thread(work)

    assert raised.value is error or isinstance(error, StopIteration)


async def test_a_cancelled_task_ends_only_after_its_thread() -> None:
    work = Work()
    task = asyncio.ensure_future(in_thread(work))
    await work.until_started()

    for _ in range(3):
        task.cancel()
        await anyio.sleep(0.02)
        assert not task.done()
    work.free.set()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert work.ended
    assert task.cancelled()


async def test_a_cancelled_scope_ends_only_after_its_thread() -> None:
    work, ended_inside = Work(), False

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_then_free, work, scope)
            try:
                await in_thread(work)
            finally:
                ended_inside = work.ended

    assert ended_inside
    assert scope.cancelled_caught


async def _cancel_then_free(work: Work, scope: anyio.CancelScope) -> None:
    with anyio.CancelScope(shield=True):
        await work.until_started()
        scope.cancel()
        await anyio.sleep(0.05)
        work.free.set()


async def test_a_timeout_ends_only_after_the_thread() -> None:
    work = Work()
    timer = threading.Timer(0.15, work.free.set)
    timer.start()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(in_thread(work), 0.05)

    assert work.ended
    timer.join()


async def test_work_in_threads_does_not_hold_up_the_event_loop() -> None:
    works = [Work() for _ in range(3)]
    results: list[str] = []

    async def one(work: Callable[[], str]) -> None:
        results.append(await in_thread(work))

    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(one, work)
        for work in works:
            await work.until_started()
        for work in works:
            work.free.set()

    assert results == ["done"] * 3


async def test_work_that_does_not_wait_is_done_before_anything_else_has_its_turn() -> None:
    order: list[str] = []

    async def work() -> str:
        order.append("work")
        return "done"

    async def another() -> None:
        order.append("another")

    other = asyncio.create_task(another())
    assert await here_or_to_the_end(work) == "done"

    assert order == ["work"]
    await other


async def test_work_that_waits_is_done_to_its_end_and_a_cancellation_comes_after_it() -> None:
    free, done = asyncio.Event(), False

    async def work() -> None:
        nonlocal done
        await free.wait()
        await asyncio.sleep(0)
        done = True

    asking = asyncio.create_task(here_or_to_the_end(work))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0.01)
    assert not asking.done()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert done


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "later"])
async def test_a_failure_of_work_that_may_wait_comes_out(*, waits: bool) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        await here_or_to_the_end(work)


async def test_a_lock_is_free_only_if_nobody_would_have_it_next() -> None:
    lock = asyncio.Lock()
    assert is_free(lock)
    assert not lock.locked()

    await lock.acquire()
    assert not is_free(lock)
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    lock.release()

    assert not lock.locked()
    assert not is_free(lock)
    await waiting
    lock.release()
    assert is_free(lock)
