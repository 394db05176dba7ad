"""Work that is done to its end, whoever cancels the caller meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

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


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a worker thread, to its end.

    A thread cannot be stopped. If a cancellation let the caller go on, two threads would use one
    connection, one of them in the middle of a transaction.
    """
    return await to_the_end(lambda: to_thread.run_sync(work))
