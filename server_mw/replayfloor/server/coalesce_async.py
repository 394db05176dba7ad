"""Puts together what many tasks ask of one store: whatever arrives while a round trip is under way
goes into the next one. No timer, so that nothing waits for company; no store, no SQL.

A request that is cancelled does not disturb the others. If its entry still waits, it is taken
back, and was never performed. If it is under way, the cancellation waits for the end of the round
trip: whoever was cancelled then undoes what was done, and an undoing that overtakes the doing would
find nothing, and leave the doing behind. Where the undoing goes the same way (`in_order`), it
cannot overtake, and nobody waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from copy import copy
from operator import attrgetter
from typing import Final, Generic, TypeVar

from replayfloor.server.shield import to_the_end

EntryT = TypeVar("EntryT")
AnswerT = TypeVar("AnswerT")

_key_of: Final = attrgetter("key")


class Entry(Generic[EntryT, AnswerT]):
    """One operation that waits or is under way. `key`: no two of one key go together.

    `answer` and `started` are told, if somebody waits for them.
    """

    __slots__ = ("answer", "asked", "ended", "key", "started", "under_way")

    def __init__(
        self,
        key: bytes,
        asked: EntryT,
        answer: asyncio.Future[AnswerT] | None,
        started: asyncio.Future[None] | None,
    ) -> None:
        """Begin to wait."""
        self.key, self.asked, self.answer, self.started = key, asked, answer, started
        self.under_way = False
        self.ended: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Be under way from now on."""
        self.under_way = True
        started = self.started
        if started is not None and not started.done():
            started.set_result(None)

    def settle(self, answer: AnswerT | Exception) -> None:
        """Hand over the answer, or the failure, to whoever still waits for it."""
        self.under_way = False
        future = self.answer
        if future is not None and not future.done():
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class Coalescer(Generic[EntryT, AnswerT]):
    """Performs operations in batches, oldest first, one batch at a time.

    `perform` is given what was asked, at most `entries_max` of distinct keys and sorted by them,
    and returns as many answers in the same order; an Exception among them is raised for its own
    operation. What `perform` itself raises is raised for each of them. `in_order`: what
    was asked for first is performed first, also within a batch, whatever the keys; and everything
    that could undo an operation is put into this coalescer too.
    """

    def __init__(
        self,
        perform: Callable[[Sequence[EntryT]], Awaitable[Sequence[AnswerT | Exception]]],
        *,
        entries_max: int,
        in_order: bool = False,
    ) -> None:
        """Begin with nothing to do."""
        self._perform, self._entries_max, self._in_order = perform, entries_max, in_order
        self._waiting: deque[Entry[EntryT, AnswerT]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = False

    def put(self, key: bytes, asked: EntryT) -> None:
        """Have an operation performed, without waiting for it."""
        self._put(Entry(key, asked, None, None))

    async def send(self, key: bytes, asked: EntryT) -> None:
        """Have an operation performed; return when it is on its way, whatever its answer will be.

        Whoever waits for its start goes on after the step in which the round trip was begun, so
        what that writes at once has been written by then.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Entry(key, asked, None, started))
        await started

    async def ask(self, key: bytes, asked: EntryT) -> AnswerT:
        """Have an operation performed and return its answer."""
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        entry = Entry(key, asked, answer, None)
        self._put(entry)
        try:
            return await answer
        except asyncio.CancelledError:
            if entry.under_way and not self._in_order:
                ended = entry.ended = asyncio.get_running_loop().create_future()
                await to_the_end(lambda: ended)
            elif not entry.under_way and entry in self._waiting:
                self._waiting.remove(entry)
            raise

    def _put(self, entry: Entry[EntryT, AnswerT]) -> None:
        self._waiting.append(entry)
        if not self._busy:
            self._busy = True
            # An empty context: a batch belongs to no request, and must not keep one alive.
            task = asyncio.get_running_loop().create_task(self._run(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait until nothing is left to do."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self) -> None:
        """Perform batches until nothing waits.

        That ends in the same step in which nothing was found, not when the task is seen to have
        ended: what is put in between would wait for ever.
        """
        try:
            await self._run_batches()
        finally:
            self._busy = False

    async def _run_batches(self) -> None:
        while batch := self._take():
            try:
                answers = await self._perform([entry.asked for entry in batch])
            except Exception as error:  # noqa: BLE001 - raised where the operation is waited for
                for entry in batch:
                    # One each: whoever raises it adds to its traceback.
                    entry.settle(copy(error))
            except BaseException:
                for entry in batch:
                    if entry.answer is not None:
                        entry.answer.cancel()
                    entry.settle(RuntimeError("never raised: the answer was cancelled before"))
                raise
            else:
                for entry, answer in zip(batch, answers, strict=True):
                    entry.settle(answer)

    def _take(self) -> list[Entry[EntryT, AnswerT]]:
        """Take the oldest entries.

        What has the key of another one waits for the next turn, unless they are in order anyway.
        """
        waiting, most = self._waiting, self._entries_max
        if self._in_order:
            if len(waiting) > most:
                taken = [waiting.popleft() for _ in range(most)]
            else:
                taken = list(waiting)
                waiting.clear()
            for entry in taken:
                entry.start()
            return taken
        batch: list[Entry[EntryT, AnswerT]] = []
        keys: set[bytes] = set()
        left: list[Entry[EntryT, AnswerT]] = []
        while waiting and len(batch) < most:
            entry = waiting.popleft()
            if entry.key in keys:
                left.append(entry)
            else:
                entry.start()
                keys.add(entry.key)
                batch.append(entry)
        waiting.extendleft(reversed(left))
        batch.sort(key=_key_of)
        return batch
