"""Real stores and locks with a listener in front: counts, holds up, loses an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import TypeVar, cast

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
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks import AsyncLock, Lock
from replayfloor.server.stores import (
    AsyncConnection,
    AsyncReceipts,
    AsyncTransaction,
    Connection,
    Receipts,
    Transaction,
)
from replayfloor.server.stores.policies import Declaration, Declared
from server.apps import Hook, nothing
from server.backends import AnyLock, AnyReceipts

T = TypeVar("T")


class Watched:
    """Runs `before[name]`, the operation, then `after[name]`; both may wait or raise.

    Hooks run in the event loop of the test, also those of a blocking store: its thread waits.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self._loop = asyncio.get_running_loop()

    async def do(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Perform one operation between its hooks."""
        self.calls.append(name)
        await self.before.get(name, nothing)()
        answer = await operation()
        await self.after.get(name, nothing)()
        return answer

    def do_blocking(self, name: str, operation: Callable[[], T]) -> T:
        """Do the same in a thread."""
        self.calls.append(name)
        self._wait_for(self.before.get(name))
        answer = operation()
        self._wait_for(self.after.get(name))
        return answer

    def _wait_for(self, hook: Hook | None) -> None:
        if hook is not None:

            async def run() -> None:
                await hook()

            asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def watched_receipts(inner: AnyReceipts) -> Watched:
    """Watch a store: open, close, declare, claim, finish, abandon, renew, begin, commit,
    rollback."""
    if iscoroutinefunction(inner.claim):
        return AsyncWatchedReceipts(cast("AsyncReceipts", inner))
    return WatchedReceipts(cast("Receipts", inner))


def watched_lock(inner: AnyLock) -> Watched:
    """Watch a lock: acquire, extend, release, close."""
    if iscoroutinefunction(inner.acquire):
        return AsyncWatchedLock(cast("AsyncLock", inner))
    return WatchedLock(cast("Lock", inner))


class AsyncWatchedReceipts(Watched):
    """A store for ASGI."""

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

    async def declare(self, declaration: Declaration) -> Declared:
        return await self.do("declare", lambda: self.inner.declare(declaration))

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncTransaction:
        begun = await self.do("begin", lambda: self.inner.begin(id_))
        return AsyncWatchedTransaction(self, begun)

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        return await self.do("finish_in", lambda: self.inner.finish_in(connection, finish))


class AsyncWatchedTransaction:
    """A handler's transaction in an ASGI application."""

    def __init__(self, watched: Watched, inner: AsyncTransaction) -> None:
        self._watched, self._inner = watched, inner

    @property
    def connection(self) -> AsyncConnection:
        return self._inner.connection

    async def commit(self, finish: Finish) -> bool:
        return await self._watched.do("commit", lambda: self._inner.commit(finish))

    async def rollback(self) -> None:
        await self._watched.do("rollback", self._inner.rollback)


class AsyncWatchedLock(Watched):
    """A lock for ASGI."""

    def __init__(self, inner: AsyncLock) -> None:
        super().__init__()
        self.inner = inner

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        return await self.do("acquire", lambda: self.inner.acquire(acquire))

    async def extend(self, extend: Extend) -> bool:
        return await self.do("extend", lambda: self.inner.extend(extend))

    async def release(self, release: Release) -> bool:
        return await self.do("release", lambda: self.inner.release(release))

    async def release_soon(self, release: Release) -> None:
        await self.do("release", lambda: self.inner.release_soon(release))

    async def close(self) -> None:
        await self.do("close", self.inner.close)


class WatchedReceipts(Watched):
    """A store for WSGI."""

    def __init__(self, inner: Receipts) -> None:
        super().__init__()
        self.inner = inner

    def open(self) -> None:
        self.do_blocking("open", self.inner.open)

    def close(self) -> None:
        self.do_blocking("close", self.inner.close)

    def claim(self, claim: Claim) -> ClaimAnswer:
        return self.do_blocking("claim", lambda: self.inner.claim(claim))

    def finish(self, finish: Finish) -> bool:
        return self.do_blocking("finish", lambda: self.inner.finish(finish))

    def abandon(self, abandon: Abandon) -> bool:
        return self.do_blocking("abandon", lambda: self.inner.abandon(abandon))

    def renew(self, renew: Renew) -> bool:
        return self.do_blocking("renew", lambda: self.inner.renew(renew))

    def declare(self, declaration: Declaration) -> Declared:
        return self.do_blocking("declare", lambda: self.inner.declare(declaration))

    def begin(self, id_: ReceiptId | None = None, /) -> Transaction:
        begun = self.do_blocking("begin", lambda: self.inner.begin(id_))
        return WatchedTransaction(self, begun)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        return self.do_blocking("finish_in", lambda: self.inner.finish_in(connection, finish))


class WatchedTransaction:
    """A handler's transaction in a WSGI application."""

    def __init__(self, watched: Watched, inner: Transaction) -> None:
        self._watched, self._inner = watched, inner

    @property
    def connection(self) -> Connection:
        return self._inner.connection

    def commit(self, finish: Finish) -> bool:
        return self._watched.do_blocking("commit", lambda: self._inner.commit(finish))

    def rollback(self) -> None:
        self._watched.do_blocking("rollback", self._inner.rollback)


class WatchedLock(Watched):
    """A lock for WSGI."""

    def __init__(self, inner: Lock) -> None:
        super().__init__()
        self.inner = inner

    def acquire(self, acquire: Acquire) -> LockAnswer:
        return self.do_blocking("acquire", lambda: self.inner.acquire(acquire))

    def extend(self, extend: Extend) -> bool:
        return self.do_blocking("extend", lambda: self.inner.extend(extend))

    def release(self, release: Release) -> bool:
        return self.do_blocking("release", lambda: self.inner.release(release))

    def release_soon(self, release: Release) -> None:
        self.do_blocking("release", lambda: self.inner.release_soon(release))

    def close(self) -> None:
        self.do_blocking("close", self.inner.close)


def unavailable(times: int) -> Hook:
    """Return a hook that reports the store as gone, that many times."""
    left = times

    async def hook() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreUnavailable("the answer was lost")

    return hook
