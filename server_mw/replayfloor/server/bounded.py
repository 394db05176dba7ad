"""Calls of a user's blocking function that end in time, whatever the function does.

A thread cannot be stopped, but it can be given up: the caller goes on, and what the function
returns later is seen by nobody. A call to a provider without a timeout is the commonest reason.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

log = logging.getLogger("replayfloor.server")

Job: TypeAlias = tuple[Callable[[], T], Future[T]]


class OwnThread(Generic[T]):
    """Runs functions one after the other in one thread, which is replaced if it does not return.

    One thread, and always the same while all is well, so that what a function keeps per thread (a
    database connection, say) is kept. A daemon, so that one that hangs does not keep a process
    from ending.
    """

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._name = name
        self._jobs: SimpleQueue[Job[T] | None] | None = None

    def call(self, work: Callable[[], T], limit_s: float) -> T:
        """Run `work` and return its result. Raises what it raises, and TimeoutError."""
        future = self._submit(work)
        try:
            return future.result(limit_s)
        finally:
            if not future.done():
                self._give_up()

    async def call_async(self, work: Callable[[], T]) -> T:
        """Do the same without holding up the event loop; a cancellation gives the thread up."""
        future = self._submit(work)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if not future.done():
                self._give_up()

    def close(self) -> None:
        """Let the thread end; may be called again, and use may follow."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            thread = threading.Thread(
                target=_work_off, args=(self._jobs,), name=self._name, daemon=True
            )
            thread.start()
        future: Future[T] = Future()
        # Running from the start: a future that is waited for in vain must not be cancelled, or
        # the thread could not say what became of it.
        future.set_running_or_notify_cancel()
        self._jobs.put((work, future))
        return future

    def _give_up(self) -> None:
        log.warning("a call in the thread %s did not end in time; it is left alone", self._name)
        self.close()


def _work_off(jobs: SimpleQueue[Job[T] | None]) -> None:
    while (job := jobs.get()) is not None:
        work, future = job
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result decides
            future.set_exception(error)
