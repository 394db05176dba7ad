"""Puts together what many threads ask of one store: whatever arrives while a round trip is under
way goes into the next one. No timer, so that nothing waits for company; no store, no SQL.

A thread that arrives when nobody performs does its own operation, alone and at once. Whoever
arrives meanwhile waits. Then one of those performs for all of them: of the batch, the one that
arrived last, because its own time limit ends last. Nobody else's limit is changed by that, and
whoever gives up leaves the batch as it is.

A thread may be interrupted anywhere (KeyboardInterrupt, a worker that is aborted, a killed
greenlet). It gives its turn on in a `finally`. An interruption that hits even there would leave a
turn that nobody has: so a turn ends by itself some time after the limit of the operation, and
whoever arrives then takes it.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.coalesce_turns import Alone, Entry, State, Turns

__all__ = ["Alone", "Coalescer", "Take"]

EntryT = TypeVar("EntryT")
AnswerT = TypeVar("AnswerT")

Take = Callable[[], Sequence[EntryT]]
"""Returns what goes into the batch, at most `entries_max` of distinct keys. To be called once, and
as late as possible, so that what arrives until then comes along."""


class Coalescer(Generic[EntryT, AnswerT]):
    """Performs operations in batches, oldest first, one batch at a time. Any thread may use it.

    Args:
        perform: given a `take` and the moment at which the time is over, performs a batch and
            returns as many answers as it took, in their order. An exception among them is raised
            for its own operation; `Alone` means that its thread shall perform it by `alone`. If
            `perform` raises StoreUnavailable, each operation of the batch does; if it raises
            anything else, each is performed by `alone`, so that one of them cannot fail the others.
        alone: performs one operation until a moment.
        entries_max: entries of one batch.
        limit_s: how long one operation may take, waiting included.
        send: given operations that nobody waits for, begins them without waiting for their end,
            in the thread of a caller, and says whether it has; so no thread has to be woken for
            them. What was begun precedes whatever is performed later. Raises nothing. Operations
            may be begun, and performed as well, if the thread is interrupted.
    """

    def __init__(
        self,
        perform: Callable[[Take[EntryT], float], Sequence[AnswerT | Exception]],
        alone: Callable[[EntryT, float], AnswerT],
        *,
        entries_max: int,
        limit_s: float,
        send: Callable[[Sequence[EntryT]], bool] | None = None,
    ) -> None:
        """Begin with nothing to do, and without a thread."""
        self._perform, self._alone, self._limit_s = perform, alone, limit_s
        self._send = send
        self._turns: Turns[EntryT, AnswerT] = Turns(entries_max, limit_s, self._lead_behind)
        self._has_put = False
        _EVERY.add(self)

    def ask(self, key: bytes, asked: EntryT) -> AnswerT:
        """Perform an operation, or have it performed. Raises StoreUnavailable too."""
        deadline = monotonic() + self._limit_s
        entered = self._turns.enter(key, asked, deadline)
        if isinstance(entered, Entry):
            return self._wait(entered)
        try:
            return self._alone(asked, deadline)
        finally:
            self._see_to(self._turns.pass_on(entered))

    def put(self, key: bytes, asked: EntryT) -> None:
        """Have an operation performed, before every later one of its key, and do not wait for it.

        Its failure is nobody's.
        """
        self._has_put = True
        self._see_to(self._turns.put(key, asked))

    def drain(self) -> None:
        """Wait until nothing is left to do, as long as an operation may take."""
        self._turns.drain()

    @staticmethod
    def begin_anew_after_a_fork() -> None:
        """Forget the parent's threads, of which none is here, and what they wait for."""
        for coalescer in list(_EVERY):
            coalescer._turns.begin_anew()

    @staticmethod
    def end_what_nobody_waits_for() -> None:
        """Do it before the process ends: a lock that stays would refuse the retries elsewhere."""
        for coalescer in list(_EVERY):
            if coalescer._has_put:
                coalescer.drain()

    def _wait(self, entry: Entry[EntryT, AnswerT]) -> AnswerT:
        assert entry.wake is not None
        try:
            in_time = entry.wake.acquire(timeout=_left_s(entry))
        except BaseException:
            self._see_to(self._turns.leave(entry))
            if entry.state is State.TAKEN:
                # Whoever is interrupted undoes what was done. An undoing that overtakes the
                # doing would find nothing, and leave the doing behind.
                entry.wake.acquire(timeout=_left_s(entry))
            raise
        if not in_time:
            self._see_to(self._turns.leave(entry))
        elif entry.state is State.CALLED:
            self._lead(entry.ticket, entry, entry.deadline)
        if entry.state is State.DONE:
            return self._outcome(entry)
        if entry.state is State.TAKEN:
            raise StoreUnavailable("not performed in time")
        raise StoreUnavailable("not begun in time", performed=False)

    def _outcome(self, entry: Entry[EntryT, AnswerT]) -> AnswerT:
        match entry.outcome:
            case Alone():
                return self._alone(entry.asked, entry.deadline)
            case Exception() as error:
                raise error
            case answer:
                return answer

    # -- performing for all -----------------------------------------------------------------------

    def _lead(self, ticket: int, own: Entry[EntryT, AnswerT] | None, deadline: float) -> None:
        """Perform one batch, with `own` in it, and give the turn on."""
        batch: list[Entry[EntryT, AnswerT]] = []
        outcomes: Sequence[AnswerT | Exception] | None = None
        try:
            outcomes = self._performed(batch, own, deadline)
        finally:
            behind = self._turns.pass_on(ticket)
            if outcomes is None:
                outcomes = [StoreUnavailable("the batch was interrupted") for _ in batch]
            self._turns.settle(batch, outcomes)
            self._see_to(behind)

    def _lead_behind(self, ticket: int) -> None:
        self._lead(ticket, None, monotonic() + self._limit_s)

    def _see_to(self, ticket: int) -> None:
        """See to what nobody waits for, with a turn, if there is one: send it, or let a thread."""
        while ticket:
            sent = False
            try:
                sent = self._has_sent()
            finally:
                if not sent:
                    self._turns.leave_behind(ticket)
            ticket = self._turns.pass_on(ticket) if sent else 0

    def _has_sent(self) -> bool:
        """Say whether nothing is left that a thread has to be woken for."""
        if self._send is None:
            return False
        batch = self._turns.look()
        if not batch:
            return True  # somebody has come who waits, and performs it all
        sent = self._send([entry.asked for entry in batch])
        if sent:
            self._turns.take([], batch)
        return sent

    def _performed(
        self,
        batch: list[Entry[EntryT, AnswerT]],
        own: Entry[EntryT, AnswerT] | None,
        deadline: float,
    ) -> Sequence[AnswerT | Exception]:
        def take() -> Sequence[EntryT]:
            self._turns.take(batch)
            return [entry.asked for entry in batch]

        try:
            return self._perform(take, deadline)
        except Exception as error:  # noqa: BLE001 - raised where the operation is waited for
            failure = error
        if not batch:
            # Nothing was begun: the others wait on, but for those that nobody waits for.
            self._turns.take(batch, None if own is None else [own])
        if isinstance(failure, StoreUnavailable):
            return [_again(failure) for _ in batch]
        return [Alone() for _ in batch]


def _left_s(entry: Entry[Any, Any]) -> float:
    return max(0.0, entry.deadline - monotonic())


def _again(error: StoreUnavailable) -> StoreUnavailable:
    """Return the failure for one more thread: each adds its own traceback to its own."""
    again = StoreUnavailable(str(error))
    again.performed = error.performed
    again.__cause__ = error
    return again


_EVERY: WeakSet[Coalescer[Any, Any]] = WeakSet()

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=Coalescer.begin_anew_after_a_fork)
atexit.register(Coalescer.end_what_nobody_waits_for)
