"""A store for the tests of the coalescer: it notes what it was asked, and waits when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import cast

from replayfloor.server.coalesce_threads import Coalescer, Take

LIMIT_S = 5.0
SOON_S = 0.3
"""A time limit for what is to end by it."""


@dataclass
class Noting:
    """Answers each number with its double. While `gate` is closed, nothing ends.

    `batches` are what went together, `singles` what went alone; `threads` who did it.
    """

    batches: list[list[int]] = field(default_factory=list)
    singles: list[int] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    failure: Callable[[Sequence[int]], BaseException | None] = lambda _asked: None

    def together(self, take: Take[int], _deadline: float) -> Sequence[int | Exception]:
        """Perform a batch."""
        asked = list(take())
        self.batches.append(asked)
        self._perform(asked)
        return [number * 2 for number in asked]

    def alone(self, number: int, _deadline: float) -> int:
        """Perform one."""
        self.singles.append(number)
        self._perform([number])
        return number * 2

    def _perform(self, asked: Sequence[int]) -> None:
        self.threads.append(threading.current_thread())
        self.begun.release()
        assert self.gate.wait(LIMIT_S)
        failure = self.failure(asked)
        if failure is not None:
            raise failure


class Crowd:
    """Threads that ask, one after the other, while the store is held."""

    def __init__(self, *, entries_max: int = 100, limit_s: float = LIMIT_S) -> None:
        """Begin with nobody."""
        self.store = Noting()
        self.coalescer: Coalescer[int, int] = Coalescer(
            self.store.together, self.store.alone, entries_max=entries_max, limit_s=limit_s
        )
        self._pool = ThreadPoolExecutor(32)
        self._asked = 0

    def hold(self) -> Future[int]:
        """Let one thread perform alone, and not end."""
        first = self._pool.submit(self.coalescer.ask, b"first", 0)
        assert self.store.begun.acquire(timeout=LIMIT_S)
        return first

    def ask(self, number: int, key: bytes | None = None) -> Future[int]:
        """Let one more thread ask; it waits in the queue when this returns."""
        waiting = self.waiting
        asked = self._pool.submit(
            self.coalescer.ask, str(number).encode() if key is None else key, number
        )
        until(lambda: self.waiting > waiting)
        return asked

    @property
    def waiting(self) -> int:
        """The number of entries in the queue."""
        return len(self.coalescer._turns._waiting)

    def let_go(self) -> None:
        """Let the store answer from now on."""
        self.store.gate.set()

    def close(self) -> None:
        """End the threads."""
        self.let_go()
        self._pool.shutdown()


def until(so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    ends_at = time.monotonic() + LIMIT_S
    while not so():
        assert time.monotonic() < ends_at, "it did not come to that"
        time.sleep(0.001)


@dataclass
class Together:
    """Has several threads ask one store while it is held, so that they are put together."""

    coalescers: list[Coalescer[object, object]]
    gate: threading.Event = field(default_factory=threading.Event)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64))
    batches: int = 0

    def __post_init__(self) -> None:
        for coalescer in self.coalescers:
            self._count(coalescer)

    def _count(self, coalescer: Coalescer[object, object]) -> None:
        perform = coalescer._perform

        def counting(*arguments: object) -> object:
            self.batches += 1
            return cast("Callable[..., object]", perform)(*arguments)

        coalescer._perform = counting  # type: ignore[assignment]

    def hold(self) -> Callable[[], None]:
        """Have one operation under way; return what ends it."""
        coalescer = self.coalescers[0]
        inside = threading.Event()

        def hold(_asked: object, _deadline: float) -> None:
            inside.set()
            assert self.gate.wait(LIMIT_S)

        alone, coalescer._alone = coalescer._alone, hold
        self.pool.submit(coalescer.ask, b"held", None)
        assert inside.wait(LIMIT_S)
        coalescer._alone = alone
        return self.gate.set

    def ask(self, *calls: Callable[[], object]) -> list[object]:
        """Return the answers, or failures, of calls that go into one batch."""
        coalescer, let_go = self.coalescers[0], self.hold()
        asked: list[Future[object]] = []
        for call in calls:
            asked.append(self.pool.submit(call))
            until(lambda: len(coalescer._turns._waiting) == len(asked))
        let_go()
        errors = [each.exception(LIMIT_S) for each in asked]
        return [error or each.result() for each, error in zip(asked, errors, strict=True)]


def together(*coalescers: object) -> Together:
    return Together(cast("list[Coalescer[object, object]]", list(coalescers)))
