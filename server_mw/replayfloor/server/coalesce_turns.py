"""Whose turn it is to perform, and who waits: the bookkeeping of `coalesce_threads.py`.

Nothing is performed here, and nobody waits here longer than it takes to look at a queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from time import monotonic
from typing import Final, Generic, TypeVar

from replayfloor.server.coalesce_background import Background

EntryT = TypeVar("EntryT")
AnswerT = TypeVar("AnswerT")

TURN_GRACE_S: Final = 5.0
"""How long after its time limit an operation may still be ending. Longer than any rollback, and
short for an outage that only an interruption at the worst place can cause."""


class Alone(Exception):
    """The outcome of an entry that its own thread has to perform by itself, outside of a batch."""


class State(Enum):
    """How far an entry is."""

    WAITING = auto()
    CALLED = auto()
    """Its thread is to perform the next batch."""
    TAKEN = auto()
    """It is part of a batch that is being performed."""
    DONE = auto()


class Entry(Generic[EntryT, AnswerT]):
    """One operation. `wake` is held until there is something to do; None: nobody waits for it."""

    __slots__ = ("asked", "deadline", "key", "outcome", "state", "ticket", "wake")

    def __init__(self, key: bytes, asked: EntryT, deadline: float, *, waited_for: bool) -> None:
        """Begin to wait, until a moment of `time.monotonic` at most."""
        self.key, self.asked, self.deadline = key, asked, deadline
        self.state, self.ticket = State.WAITING, 0
        self.outcome: AnswerT | Exception = Alone()
        self.wake: threading.Lock | None = None
        if waited_for:
            self.wake = threading.Lock()
            self.wake.acquire()


class Turns(Generic[EntryT, AnswerT]):
    """A queue, and one turn, which is given from thread to thread.

    A turn is a number that is not used again, so that a thread whose turn was taken from it can
    tell. `behind` is called with a turn, in a thread of its own, for entries that nobody waits for.
    """

    def __init__(self, entries_max: int, limit_s: float, behind: Callable[[int], None]) -> None:
        """Begin with nobody."""
        self._entries_max, self._limit_s, self._behind = entries_max, limit_s, behind
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everybody: in a process that was just forked, none of those threads is here."""
        self._guard = threading.Lock()
        self._waiting: deque[Entry[EntryT, AnswerT]] = deque()
        self._idle: list[threading.Lock] = []
        self._background: Background[int] = Background(self._behind)
        self._ticket = self._tickets = 0
        self._ends_at = 0.0

    def enter(self, key: bytes, asked: EntryT, deadline: float) -> int | Entry[EntryT, AnswerT]:
        """Return a turn, if nobody has it and nobody waits; else an entry to wait with."""
        with self._guard:
            if not self._waiting and self._is_free():
                return self._give(deadline)
            entry: Entry[EntryT, AnswerT] = Entry(key, asked, deadline, waited_for=True)
            self._waiting.append(entry)
            if self._is_free() and (behind := self._call_next()):
                self._leave_behind(behind)
            return entry

    def put(self, key: bytes, asked: EntryT) -> int:
        """Add an entry that nobody waits for; return a turn, if nobody has it, else 0."""
        with self._guard:
            deadline = monotonic() + self._limit_s
            self._waiting.append(Entry(key, asked, deadline, waited_for=False))
            return self._call_next() if self._is_free() else 0

    def look(self) -> list[Entry[EntryT, AnswerT]]:
        """Return the next batch, and leave it in the queue; nothing if somebody waits for it."""
        with self._guard:
            first = self._first()
        return [] if any(entry.wake is not None for entry in first) else first

    def take(
        self,
        batch: list[Entry[EntryT, AnswerT]],
        only: Sequence[Entry[EntryT, AnswerT]] | None = None,
    ) -> None:
        """Move the next batch, or `only` these entries, out of the queue."""
        with self._guard:
            batch.extend(self._first() if only is None else only)
            taken = set(batch)
            self._waiting = deque([entry for entry in self._waiting if entry not in taken])
            for entry in batch:
                entry.state = State.TAKEN

    def pass_on(self, ticket: int) -> int:
        """Give a turn on, if it still is one.

        Return a turn if only entries are left that nobody waits for, else 0. Whoever gets it sees
        to them, or gives it to a thread that does.
        """
        with self._guard:
            return self._call_next() if self._ticket == ticket else 0

    def leave_behind(self, ticket: int) -> None:
        """Give a turn to a thread of its own."""
        with self._guard:
            if self._ticket == ticket:
                self._leave_behind(ticket)

    def leave(self, entry: Entry[EntryT, AnswerT]) -> int:
        """Take an entry back that is not part of a batch yet; return what `pass_on` returns."""
        with self._guard:
            if entry.state in (State.WAITING, State.CALLED):
                self._waiting.remove(entry)
            if entry.state is State.CALLED and self._ticket == entry.ticket:
                return self._call_next()
            return 0

    def settle(
        self,
        batch: Sequence[Entry[EntryT, AnswerT]],
        outcomes: Sequence[AnswerT | Exception],
    ) -> None:
        """Hand the outcomes over."""
        with self._guard:
            for entry, outcome in zip(batch, outcomes, strict=True):
                entry.outcome, entry.state = outcome, State.DONE
        for entry in batch:
            if entry.wake is not None and entry.wake.locked():
                entry.wake.release()

    def drain(self) -> None:
        """Wait until nothing is left to do, as long as an operation may take."""
        with self._guard:
            if not self._ticket:
                return
            idle = threading.Lock()
            idle.acquire()
            self._idle.append(idle)
        idle.acquire(timeout=self._limit_s)

    # -- the guard is held ------------------------------------------------------------------------

    def _is_free(self) -> bool:
        """Say whether nobody has the turn, or somebody has kept it beyond all limits."""
        return not self._ticket or monotonic() > self._ends_at

    def _give(self, deadline: float) -> int:
        self._tickets += 1
        self._ticket, self._ends_at = self._tickets, deadline + TURN_GRACE_S
        return self._ticket

    def _call_next(self) -> int:
        """Give the turn to whoever performs the next batch, if there is one.

        Return it if nobody waits for that batch.
        """
        if not self._waiting:
            self._ticket = 0
            for idle in self._idle:
                idle.release()
            self._idle.clear()
            return 0
        last = None
        for entry in self._first():
            last = entry if entry.wake is not None else last
        if last is not None and last.wake is not None:
            last.state, last.ticket = State.CALLED, self._give(last.deadline)
            last.wake.release()
            return 0
        return self._give(monotonic() + self._limit_s)

    def _leave_behind(self, ticket: int) -> None:
        if not self._background.call(ticket):
            self._ticket = 0  # whoever comes next performs it first

    def _first(self) -> list[Entry[EntryT, AnswerT]]:
        """Return the oldest entries; what has the key of another one is for the next batch.

        Who was called for a batch is part of it: others only come after, or go away.
        """
        batch: dict[bytes, Entry[EntryT, AnswerT]] = {}
        for entry in self._waiting:
            if len(batch) == self._entries_max:
                break
            batch.setdefault(entry.key, entry)
        return list(batch.values())
