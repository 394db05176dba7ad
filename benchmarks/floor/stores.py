"""The round trips of the floor, and nothing else: what arrives while one is under way goes into
the next one. No check, no retry, no deadline, no renewal: this is what the work itself costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar, cast

import psycopg
from redis.asyncio import Redis

HERE: Final = Path(__file__).parent
LEASE_MS: Final = 3_600_000
"""Longer than a run: nobody renews it."""

KEPT_MS: Final = 3_600_000
"""How long the receipt stays in Redis: as long as ours keeps it, and longer than a run."""

CLAIM: Final = (HERE / "claim.sql").read_bytes()
FINISH: Final = (HERE / "finish.sql").read_bytes()

FoundRow: TypeAlias = tuple[bytes, bytes, int, bytes]

E = TypeVar("E")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that wants its key."""

    id: bytes
    fingerprint: bytes
    fence: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """An answer that is to be kept."""

    entry: Entry
    status: int
    response: bytes


class Trips(Generic[E, A]):
    """One round trip after the other, each with all that has arrived meanwhile."""

    def __init__(self, trip: Callable[[list[E]], Awaitable[Sequence[A]]]) -> None:
        """Take the function that makes one round trip: an answer for each entry, in order."""
        self._trip = trip
        self._waiting: list[tuple[E, asyncio.Future[A]]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, entry: E) -> asyncio.Future[A]:
        """Return the answer to come."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return future

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                answers = await self._trip([entry for entry, _future in batch])
            except (psycopg.Error, OSError, RuntimeError) as error:
                for _entry, future in batch:
                    future.set_exception(error)
                continue
            for (_entry, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        self._task = None


class Claims:
    """Claims and receipts in Postgres: a connection for claims, one for receipts."""

    def __init__(self, url: str) -> None:
        """Connect nothing."""
        self._url = url
        self.claim = Trips[Entry, tuple[int, bytes] | None](self._claim)
        self.finish = Trips[Done, bool](self._finish)

    async def open(self) -> None:
        """Connect."""
        self._claiming = await connection_to(self._url)
        self._finishing = await connection_to(self._url)

    async def close(self) -> None:
        """Disconnect."""
        await self._claiming.close()
        await self._finishing.close()

    async def _claim(self, batch: list[Entry]) -> Sequence[tuple[int, bytes] | None]:
        arrays = [e.id for e in batch], [e.fingerprint for e in batch], [e.fence for e in batch]
        cursor = await self._claiming.execute(CLAIM, arrays, prepare=True, binary=True)
        *rows, (_, _, taken, _) = cast("list[FoundRow]", await cursor.fetchall())
        # The same key twice in one batch, or in flight elsewhere: the lock in front tells of it.
        if rows:
            found = {id_: (status, response) for id_, _print, status, response in rows}
            return [found.get(entry.id) for entry in batch]
        if taken != len(batch):
            raise RuntimeError("an id is in flight: the lock in front should have told")
        return [None] * len(batch)

    async def _finish(self, batch: list[Done]) -> Sequence[bool]:
        cursor = await self._finishing.execute(
            FINISH, finish_arguments(batch), prepare=True, binary=True
        )
        if await cursor.fetchone() != (len(batch),):
            raise RuntimeError("a claim was not there any more")
        return [True] * len(batch)


def finish_arguments(batch: Sequence[Done]) -> Sequence[list[bytes] | list[int]]:
    """Return the arrays for finish.sql."""
    return (
        [d.entry.id for d in batch],
        [d.entry.fingerprint for d in batch],
        [d.entry.fence for d in batch],
        [d.status for d in batch],
        [d.response for d in batch],
    )


async def connection_to(url: str) -> psycopg.AsyncConnection[tuple[object, ...]]:
    """Return a connection that commits each statement."""
    return await psycopg.AsyncConnection.connect(url, autocommit=True)


def held(entry: Entry) -> bytes:
    """Return what a lock holds while its request is under way."""
    return b"L" + entry.fence + entry.fingerprint


def kept(done: Done) -> bytes:
    """Return what a lock holds afterwards."""
    return b"R" + done.entry.fingerprint + done.status.to_bytes(2, "big") + done.response


def receipt_in(value: bytes) -> tuple[int, bytes] | None:
    """Return the receipt that a lock holds, or None for a request under way."""
    if value[:1] == b"L":
        return None
    return int.from_bytes(value[17:19], "big"), value[19:]


class Locks:
    """Locks, and receipts for a while, in Redis: a connection for each direction."""

    def __init__(self, url: str) -> None:
        """Connect nothing."""
        self._redis = Redis.from_url(url)
        self.acquire = Trips[Entry, bytes | None](self._acquire)
        self.release = Trips[Done, None](self._release)

    async def open(self) -> None:
        """Load the scripts."""
        self._acquire_sha = await self._load("acquire.lua")
        self._release_sha = await self._load("release.lua")

    async def close(self) -> None:
        """Disconnect, when the releases are through for which nobody waits."""
        await self.release.settle()
        await self._redis.aclose()

    async def _load(self, name: str) -> str:
        script = (HERE / name).read_text(encoding="utf-8")
        return str(await self._redis.script_load(script))

    async def _acquire(self, batch: list[Entry]) -> Sequence[bytes | None]:
        values = [held(entry) for entry in batch]
        arguments = [*(entry.id for entry in batch), *values, b"%d" % LEASE_MS]
        found = await self._run(self._acquire_sha, len(batch), arguments)
        return cast("list[bytes | None]", found)

    async def _release(self, batch: list[Done]) -> Sequence[None]:
        values: list[bytes] = []
        for done in batch:
            values += held(done.entry), kept(done)
        arguments = [*(done.entry.id for done in batch), *values, b"%d" % KEPT_MS]
        await self._run(self._release_sha, len(batch), arguments)
        return [None] * len(batch)

    async def _run(self, sha: str, keys: int, arguments: list[bytes]) -> object:
        # The library says str where it takes bytes as well, and its two colours share a signature.
        given = cast("list[str]", arguments)
        return await cast("Awaitable[object]", self._redis.evalsha(sha, keys, *given))
