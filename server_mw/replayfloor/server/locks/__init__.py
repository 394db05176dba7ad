"""The in-flight lock: the contract in both colours, and how an option becomes a lock.

The contract of each operation is the docstring of its effect (`replayfloor.core.claims`). A lock
is a fast path: it may forget everything at any time and nothing is executed twice.
"""

from __future__ import annotations

from typing import Protocol

from replayfloor.core.claims import Acquire, Extend, LockAnswer, Release
from replayfloor.core.errors import ConfigurationError


class AsyncLock(Protocol):
    """Answers duplicates in flight in one round trip. Any number of tasks may use one."""

    async def acquire(self, acquire: Acquire) -> LockAnswer:
        """Keep the contract of `replayfloor.core.claims.Acquire`."""
        ...

    async def release(self, release: Release) -> bool:
        """Keep the contract of `replayfloor.core.claims.Release`."""
        ...

    async def release_soon(self, release: Release) -> None:
        """Do what `release` does, and return when it is on its way: nobody waits for the answer.

        It comes before every later operation on this id through this lock. It may get lost, as
        everything may that a lock knows; the lease ends the lock then.
        """
        ...

    async def extend(self, extend: Extend) -> bool:
        """Keep the contract of `replayfloor.core.claims.Extend`."""
        ...

    async def close(self) -> None:
        """Give every connection back; may be called again, and use may follow."""
        ...


class Lock(Protocol):
    """See AsyncLock. Any number of threads may use one; no call blocks without a limit."""

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """Keep the contract of `replayfloor.core.claims.Acquire`."""
        ...

    def release(self, release: Release) -> bool:
        """Keep the contract of `replayfloor.core.claims.Release`."""
        ...

    def release_soon(self, release: Release) -> None:
        """See AsyncLock.release_soon. It may not be on its way yet: a repetition that follows at
        once, and meets another process, may be told 409."""
        ...

    def extend(self, extend: Extend) -> bool:
        """Keep the contract of `replayfloor.core.claims.Extend`."""
        ...

    def close(self) -> None:
        """Give every connection back; may be called again, and use may follow."""
        ...


REDIS_MISSING = "a lock in Redis needs redis-py and pybreaker: install replayfloor[server]"


def open_async_lock(option: str) -> AsyncLock:
    """Return the lock, for ASGI, of `"local"` or of a Redis URL; `redis_url.py` lists its forms.

    Nothing is connected yet. Raises ConfigurationError for anything else.
    """
    if option == "local":
        from replayfloor.server.locks.local import AsyncLocalLock

        return AsyncLocalLock()
    _check_scheme(option)
    try:
        from replayfloor.server.locks.redis_async import AsyncRedisLock
    except ImportError as error:
        raise ConfigurationError(REDIS_MISSING) from error
    return AsyncRedisLock(option)


def open_lock(option: str) -> Lock:
    """Return the lock of an option for WSGI; see `open_async_lock`."""
    if option == "local":
        from replayfloor.server.locks.local import LocalLock

        return LocalLock()
    _check_scheme(option)
    try:
        from replayfloor.server.locks.redis import RedisLock
    except ImportError as error:
        raise ConfigurationError(REDIS_MISSING) from error
    return RedisLock(option)


def _check_scheme(option: str) -> None:
    """Raise ConfigurationError for what is no Redis URL, also where redis-py is not installed."""
    scheme, separator, _rest = option.partition("://")
    if not separator or scheme.partition("+")[0] not in ("redis", "rediss", "unix"):
        # The scheme and no more of it: the rest may hold a password.
        shown = scheme if separator else "…"
        raise ConfigurationError(
            f"lock={shown!r}: expected 'local' or a Redis URL such as redis://host:port/db"
        )
