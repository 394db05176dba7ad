"""Blocks of claims against one database, timed one by one, on the stores that production uses.

A block is a few seconds of work on one database: first requests (claim, then finish), then replays
of old keys (claim, answered with the receipt). What a number of blocks means is in figures.py.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final, Literal, TypeAlias

from benchmarks.receipts import RETENTION_S, Filled, id_of, receipt_of

from replayfloor.core.claims import (
    FENCE_BYTES,
    Claim,
    ClaimAnswer,
    Claimed,
    Fence,
    Finish,
    Finished,
    Reuse,
)
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts

LEASE_MS: Final = 30_000
"""The lease that the middleware asks for unless told otherwise."""

Operation: TypeAlias = Literal["first claim", "finish", "replay"]
Times: TypeAlias = dict[Operation, list[int]]
"""Nanoseconds, one for each operation."""


class WrongAnswer(Exception):
    """A claim was answered otherwise than the measurement takes for granted."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a block does: keys that nobody has used, and old ones."""

    fresh: list[Claim]
    old: list[Claim]


def work_for(rows: int, operations: int) -> Work:
    """Choose keys at random: new ones, and the keys of receipts that are there."""
    fresh = [_claim(ReceiptId(secrets.token_bytes(16))) for _ in range(operations)]
    old = [_claim(id_of(random.randrange(rows))) for _ in range(operations)]
    return Work(fresh, old)


def _claim(id_: ReceiptId) -> Claim:
    """Make the claim that the middleware makes for a key."""
    return Claim(
        id_,
        Fingerprint(id_),
        Fence(secrets.token_bytes(FENCE_BYTES)),
        LEASE_MS,
        retention_ms=round(RETENTION_S * 1000),
        reuse=Reuse.REFUSE,
    )


def _finish(claim: Claim) -> Finish:
    return Finish(claim.id, claim.fence, receipt_of(claim.id))


@dataclass(slots=True)
class _Timed:
    """Takes times, and refuses those of answers that are not the expected ones."""

    times: Times = field(
        default_factory=lambda: {"first claim": [], "finish": [], "replay": []},
    )

    def first(self, began: int, answer: ClaimAnswer) -> None:
        self._take("first claim", began, as_expected=answer == Claimed())

    def finish(self, began: int, done: object) -> None:
        self._take("finish", began, as_expected=done is True)

    def replay(self, began: int, answer: ClaimAnswer) -> None:
        self._take("replay", began, as_expected=isinstance(answer, Finished))

    def _take(self, operation: Operation, began: int, *, as_expected: bool) -> None:
        self.times[operation].append(perf_counter_ns() - began)
        if not as_expected:
            raise WrongAnswer(f"{operation}: not the answer that is to be measured")


class OneConnection:
    """One caller, on the blocking store."""

    def __init__(self, filled: Filled) -> None:
        """Connect nothing yet."""
        self._store = PostgresReceipts(filled.url, pool_connections=1)

    def run(self, work: Work) -> Times:
        """Do the work, one operation after the other."""
        timed = _Timed()
        for claim in work.fresh:
            began = perf_counter_ns()
            timed.first(began, self._store.claim(claim))
            finish = _finish(claim)
            began = perf_counter_ns()
            timed.finish(began, self._store.finish(finish))
        for claim in work.old:
            began = perf_counter_ns()
            timed.replay(began, self._store.claim(claim))
        return timed.times

    def close(self) -> None:
        """Close the connection."""
        self._store.close()


class ManyConnections:
    """So many callers at a time, tasks of one event loop, on the asynchronous store."""

    def __init__(self, filled: Filled, connections: int) -> None:
        """Connect nothing yet."""
        self._store = AsyncPostgresReceipts(filled.url, pool_connections=connections)
        self._connections = connections
        self._runner = asyncio.Runner()

    def run(self, work: Work) -> Times:
        """Do the work; each task takes the next key as soon as it is through with one."""
        return self._runner.run(self._run(work))

    async def _run(self, work: Work) -> Times:
        timed = _Timed()
        for task, claims in ((self._first, work.fresh), (self._replay, work.old)):
            left = iter(claims)
            async with asyncio.TaskGroup() as group:
                for _ in range(self._connections):
                    group.create_task(task(left, timed))
        return timed.times

    async def _first(self, claims: Iterator[Claim], timed: _Timed) -> None:
        for claim in claims:
            began = perf_counter_ns()
            timed.first(began, await self._store.claim(claim))
            finish = _finish(claim)
            began = perf_counter_ns()
            timed.finish(began, await self._store.finish(finish))

    async def _replay(self, claims: Iterator[Claim], timed: _Timed) -> None:
        for claim in claims:
            began = perf_counter_ns()
            timed.replay(began, await self._store.claim(claim))

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._store.close())
        self._runner.close()
