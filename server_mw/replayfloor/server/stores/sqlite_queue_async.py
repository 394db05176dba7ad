"""The operations of an asynchronous SQLite store, put together: whatever arrives while the file is
written goes into the next transaction, which one thread runs. No SQL.

An event loop cannot wait for a disk, and a thread per operation would cost more than the operation.
The turn to write is shared with the handlers' transactions. A batch is taken when its turn has
come, and not before; until then each operation may give up, and was never performed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from typing import TypeVar, cast

import anyio

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.coalesce_background import Background
from replayfloor.server.shield import to_the_end
from replayfloor.server.stores.sqlite_file import Database
from replayfloor.server.stores.sqlite_together import each_of
from replayfloor.server.stores.sqlite_work import BUSY, ENTRIES_MAX, Work

T = TypeVar("T")

CLOCK_S = 0.001
"""How much too early a timer of an event loop may come: uvloop's count whole milliseconds."""


class _Entry:
    """One operation. `ended` is there for whoever was cancelled while it was under way.

    `under_way` ends before whoever waits is woken: a cancellation may come in between.
    """

    __slots__ = ("answer", "ended", "ends_at", "under_way", "work")

    def __init__(self, work: Work[object], answer: asyncio.Future[object], ends_at: float) -> None:
        self.work, self.answer, self.ends_at = work, answer, ends_at
        self.under_way = False
        self.ended: asyncio.Future[None] | None = None

    def settle(self, answer: object) -> None:
        self.under_way = False
        if not self.answer.done():
            if isinstance(answer, Exception):
                self.answer.set_exception(answer)
            else:
                self.answer.set_result(answer)
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class Operations:
    """Runs operations in transactions that they share. Any number of tasks of one loop."""

    def __init__(self, database: Database, turn: anyio.Semaphore, operation_s: float) -> None:
        """Begin with nothing to do. `operation_s` is how long one waits for its turn."""
        self._database, self._turn, self._operation_s = database, turn, operation_s
        self._waiting: deque[_Entry] = deque()
        self._active = False
        self._waits: asyncio.Task[None] | None = None
        self._limited: asyncio.AbstractEventLoop | None = None
        self._thread: Background[tuple[asyncio.AbstractEventLoop, list[_Entry]]] = Background(
            self._in_thread
        )

    async def run(self, work: Work[T]) -> T:
        """Run `work` in a transaction and return what it returns, once that is durable.

        A cancellation takes back what has not begun, and else waits for its end.
        """
        loop = asyncio.get_running_loop()
        entry = _Entry(work, loop.create_future(), loop.time() + self._operation_s)
        self._waiting.append(entry)
        if not self._active:
            self._next(loop)
        if self._waiting and self._limited is not loop:
            self._limit(loop)
        try:
            return cast("T", await entry.answer)
        except asyncio.CancelledError:
            if entry.under_way:
                ended = entry.ended = loop.create_future()
                await to_the_end(lambda: ended)
            elif entry in self._waiting:
                self._waiting.remove(entry)
            raise

    def _limit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the oldest that waits when its time is over. One timer for all of them."""
        self._limited = loop
        # An empty context: this belongs to no request, and must not keep one alive.
        loop.call_at(self._waiting[0].ends_at, self._give_up, loop, context=Context())

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        # What is under way has its turn already; SQLite itself waits only so long for others.
        self._limited = None
        now = loop.time() + CLOCK_S
        while self._waiting and self._waiting[0].ends_at <= now:
            self._waiting.popleft().settle(StoreUnavailable(BUSY, performed=False))
        if self._waiting:
            self._limit(loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._active = bool(self._waiting)
        if not self._active:
            return
        try:
            self._turn.acquire_nowait()
        except anyio.WouldBlock:
            # An empty context: this belongs to no request, and must not keep one alive.
            self._waits = loop.create_task(self._when_free(loop), context=Context())
        else:
            self._begin(loop)

    async def _when_free(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            await self._turn.acquire()
        except BaseException:
            self._active = False
            raise
        self._begin(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the thread run what has arrived; the turn has been taken."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), ENTRIES_MAX))]
        if not batch:
            self._turn.release()
            self._active = False
            return
        for entry in batch:
            entry.under_way = True
        if not self._thread.call((loop, batch)):
            error = StoreUnavailable("there is no thread to run SQLite in", performed=False)
            self._settle(loop, batch, [error] * len(batch))

    def _settle(
        self, loop: asyncio.AbstractEventLoop, batch: list[_Entry], answers: Sequence[object]
    ) -> None:
        self._turn.release()
        for entry, answer in zip(batch, answers, strict=True):
            entry.settle(answer)
        self._next(loop)

    # -- in the thread ----------------------------------------------------------------------------

    def _in_thread(self, taken: tuple[asyncio.AbstractEventLoop, list[_Entry]]) -> None:
        loop, batch = taken
        answers = self._perform([entry.work for entry in batch])
        with suppress(RuntimeError):  # a loop that was closed has nobody left who waits
            loop.call_soon_threadsafe(self._settle, loop, batch, answers)

    def _perform(self, works: Sequence[Work[object]]) -> Sequence[object]:
        try:
            return self._database.committed(each_of(works))
        except Exception as error:  # noqa: BLE001 - raised where the operation is waited for
            if len(works) == 1:
                return [error]
            if isinstance(error, StoreUnavailable):
                return [_again(error) for _ in works]
        # One of them has spoiled it for all: each by itself.
        return [self._perform([work])[0] for work in works]


def _again(error: StoreUnavailable) -> StoreUnavailable:
    """Return the failure for one more task: each adds its own traceback to its own."""
    again = StoreUnavailable(str(error))
    again.performed = error.performed
    again.__cause__ = error
    return again
