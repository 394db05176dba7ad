"""Work that is done to its end, whoever cancels the caller meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Generic, TypeVar, cast

import anyio
from anyio import to_thread

T = TypeVar("T")


async def to_the_end(work: Callable[[], Awaitable[T]]) -> T:
    """Await `work` and return, always, only after it ended; a cancellation takes effect then.

    A shielded cancel scope alone does not hold back `asyncio.Task.cancel()`. A task group does: it
    waits for its child, whose own scope is shielded.
    """
    results: list[T] = []
    errors: list[Exception] = []

    async def child() -> None:
        with anyio.CancelScope(shield=True):
            try:
                results.append(await work())
            except Exception as error:  # noqa: BLE001 - passed on below, outside the task group
                errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(child)
    if errors:
        raise errors[0]
    return results[0]


async def here_or_to_the_end(work: Callable[[], Coroutine[object, None, T]]) -> T:
    """Do as `to_the_end`, at no cost if the work ends without waiting, as it is expected to.

    It must have no cancel scope of its own: it may begin in one task and end in another.
    """
    coroutine = work()
    try:
        waits_for = coroutine.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    return await to_the_end(lambda: _Rest(coroutine, waits_for))


class _Rest(Generic[T]):
    """The rest of a coroutine that was begun by hand, and the future that it waits for."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[object, None, T], waits_for: object) -> None:
        self._coroutine, self._waits_for = coroutine, waits_for

    def __await__(self) -> Generator[object, None, T]:
        coroutine, waits_for = self._coroutine, self._waits_for
        try:
            while True:
                try:
                    yield waits_for
                except BaseException as error:  # noqa: BLE001 - the coroutine's own, to handle
                    waits_for = coroutine.throw(error)
                else:
                    waits_for = coroutine.send(None)
        except StopIteration as ended:
            return cast("T", ended.value)


def is_free(lock: asyncio.Lock) -> bool:
    """Say whether nobody has the lock, and nobody is waiting for it who would have it next.

    `Lock.locked` does not say so: between a release and the next owner's turn it is not locked.
    """
    taking = lock.acquire()
    try:
        taking.send(None)
    except StopIteration:
        lock.release()
        return True
    taking.close()
    return False


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a worker thread, to its end.

    A thread cannot be stopped. If a cancellation let the caller go on, two threads would use one
    connection, one of them in the middle of a transaction.
    """
    return await to_the_end(lambda: to_thread.run_sync(work))
