"""Real stores and locks with a listener in front: counts, holds up, loses an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Claim,
    ClaimAnswer,
    Extend,
    Finish,
    LockAnswer,
    Release,
    Renew,
)
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server import AsyncLock, AsyncReceipts
from replayfloor.server.stores import AsyncConnection, AsyncTransaction
from server.apps import Hook, nothing

T = TypeVar("T")


class Watched:
    """Runs `before[name]`, the operation, then `after[name]`; both may wait or raise."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}

    async def do(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Perform one operation between its hooks."""
        self.calls.append(name)
        await self.before.get(name, nothing)()
        answer = await operation()
        await self.after.get(name, nothing)()
        return answer


class WatchedReceipts(Watched):
    """A store of receipts: open, close, claim, finish, abandon, begin, commit, rollback."""

    def __init__(self, inner: AsyncReceipts) -> None:
        super().__init__()
        self.inner = inner

    async def open(self) -> None:
        await self.do("open", self.inner.open)

    async def close(self) -> None:
        await self.do("close", self.inner.close)

    async def claim(self, claim: Claim) -> ClaimAnswer:
        return await self.do("claim", lambda: self.inner.claim(claim))

    async def finish(self, finish: Finish) -> bool:
        return await self.do("finish", lambda: self.inner.finish(finish))

    async def abandon(self, abandon: Abandon) -> bool:
        return await self.do("abandon", lambda: self.inner.abandon(abandon))

    async def renew(self, renew: Renew) -> bool:
        return await self.do("renew", lambda: self.inner.renew(renew))

    async def begin(self) -> AsyncTransaction:
        return WatchedTransaction(self, await self.do("begin", self.inner.begin))


class WatchedTransaction:
    """A handler's transaction."""

    def __init__(self, watched: Watched, inner: AsyncTransaction) -> None:
        self._watched, self._inner = watched, inner

    @property
    def connection(self) -> AsyncConnection:
        return self._inner.connection

    async def commit(self, finish: Finish) -> bool:
        return await self._watched.do("commit", lambda: self._inner.commit(finish))

    async def rollback(self) -> None:
        await self._watched.do("rollback", self._inner.rollback)


class WatchedLock(Watched):
    """A lock: acquire, release, close."""

    def __init__(self, inner: AsyncLock) -> None:
        super().__init__()
        self.inner = inner

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        return await self.do("acquire", lambda: self.inner.acquire(acquire))

    async def extend(self, extend: Extend) -> bool:
        return await self.do("extend", lambda: self.inner.extend(extend))

    async def release(self, release: Release) -> bool:
        return await self.do("release", lambda: self.inner.release(release))

    async def close(self) -> None:
        await self.do("close", self.inner.close)


def unavailable(times: int) -> Hook:
    """Return a hook that reports the store as gone, that many times."""
    left = times

    async def hook() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreUnavailable("the answer was lost")

    return hook
