"""Locks in Redis of both colours under one roof, with a clock of their own, and what they ask."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio
import pytest

from replayfloor.core.claims import Acquire, Acquired, Held, LockAnswer, LockUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks import AsyncLock
from replayfloor.server.locks.circuit import OPEN_S
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.server.locks.redis_limits import LOCK_S
from replayfloor.testing.contract import LONG_MS, REQUEST, new_fence, new_id
from replayfloor.testing.lock_contract import ThreadedLock
from support.services.redis_words import info

Colour = Literal["async", "sync"]
A = TypeVar("A")

# A failover takes one to three seconds.
BY_THEMSELVES_S = 20.0
POLL_S = 0.05

# For tests of how long something takes: one wait, which two waits are clearly longer than, and
# none.
WAIT_S = 0.6
ONE_WAIT_S = 1.9 * WAIT_S
AT_ONCE_S = WAIT_S / 2
MEASUREMENTS = 4

# For tests of anything else, so that the pauses of a busy machine are no outage.
PATIENT_S = 10.0

both_colours = pytest.mark.parametrize("colour", ["async", "sync"])


@dataclass
class Clock:
    """Seconds that pass when told."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def let_probe(self) -> None:
        """Let so much time pass that an open circuit lets one request through."""
        self.now_s += OPEN_S * 1.01


@dataclass
class Opened:
    """A lock, and the clock that its circuits look at."""

    lock: AsyncLock
    clock: Clock = field(default_factory=Clock)

    async def try_one(self, id_: ReceiptId | None = None) -> LockAnswer:
        """Acquire one lock, of a key of its own unless given."""
        return await self.lock.acquire(request(id_))


@asynccontextmanager
async def opened(colour: Colour, url: str, timeout_s: float = LOCK_S) -> AsyncIterator[Opened]:
    """Open a lock of either colour; it is closed afterwards."""
    clock = Clock()
    lock: AsyncLock
    if colour == "async":
        lock = AsyncRedisLock(url, timeout_s=timeout_s, clock=clock)
    else:
        lock = ThreadedLock(RedisLock(url, timeout_s=timeout_s, clock=clock))
    try:
        yield Opened(lock, clock)
    finally:
        await lock.close()


@asynccontextmanager
async def opened_both(url: str, timeout_s: float = LOCK_S) -> AsyncIterator[list[Opened]]:
    """Open a lock of each colour, for what takes the servers long and us nothing."""
    async with opened("async", url, timeout_s) as one, opened("sync", url, timeout_s) as other:
        yield [one, other]


def request(id_: ReceiptId | None = None, lease_ms: int = LONG_MS) -> Acquire:
    """Return an effect for a key of its own unless given, with a fence of its own."""
    return Acquire(id_ or new_id(), REQUEST, new_fence(), lease_ms)


async def all_at_once(calls: list[Callable[[], Awaitable[A]]]) -> list[tuple[A, float]]:
    """Start every call before any has ended; return each answer and how many seconds it took."""
    results: list[tuple[A, float]] = []

    async def one(call: Callable[[], Awaitable[A]]) -> None:
        began = time.monotonic()
        answer = await call()
        results.append((answer, time.monotonic() - began))

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    return results


async def until_it_works(each: Opened, id_: ReceiptId | None = None) -> int:
    """Try again and again, as if the circuit were never in the way; return how often in vain."""
    deadline = time.monotonic() + BY_THEMSELVES_S
    for tried in itertools.count():
        answer = await each.try_one(id_)
        if answer != LockUnavailable():
            assert isinstance(answer, Acquired | Held)
            return tried
        assert time.monotonic() < deadline, "the lock does not come back"
        each.clock.let_probe()
        await anyio.sleep(POLL_S)
    raise AssertionError("never reached")


async def measured(is_quick: Callable[[], Awaitable[bool]]) -> None:
    """Say that something is quick if it is once: a busy machine can only make it slower."""
    for _ in range(MEASUREMENTS):
        if await is_quick():
            return
    raise AssertionError("it took too long, every time")


async def timed(call: Awaitable[A]) -> tuple[A, float]:
    """Return the answer and how many seconds it took."""
    began = time.monotonic()
    return await call, time.monotonic() - began


def longest_s(results: list[tuple[A, float]]) -> float:
    """Return how long the slowest of `all_at_once` took."""
    return max(took_s for _, took_s in results)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that the servers do by themselves; fail if they do not."""
    for _ in range(round(BY_THEMSELVES_S / POLL_S)):
        if is_so():
            return
        await anyio.sleep(POLL_S)
    raise AssertionError("it did not happen")


def scripts_run(port: int) -> int:
    """Return how often a server has been asked to run a script since it started."""
    stats = info(port, "INFO", "commandstats")
    called = (stats.get(f"cmdstat_{name}", "calls=0") for name in ("eval", "evalsha"))
    return sum(int(each.split(",")[0].removeprefix("calls=")) for each in called)
