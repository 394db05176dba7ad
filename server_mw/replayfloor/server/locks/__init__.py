"""The in-flight lock: the contract, and how an option becomes a lock.

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

    async def extend(self, extend: Extend) -> bool:
        """Keep the contract of `replayfloor.core.claims.Extend`."""
        ...

    async def close(self) -> None:
        """Give every connection back; may be called again, and use may follow."""
        ...


def open_lock(option: str) -> AsyncLock:
    """Return the lock of `"local"` or of a Redis URL (`redis://`, `rediss://`, `unix://`).

    Nothing is connected yet. Raises ConfigurationError for anything else.
    """
    if option == "local":
        from replayfloor.server.locks.local import LocalLock

        return LocalLock()
    if option.startswith(("redis://", "rediss://", "unix://")):
        try:
            from replayfloor.server.locks.redis import AsyncRedisLock
        except ImportError as error:
            raise ConfigurationError(
                "a lock in Redis needs redis-py: install replayfloor[server]"
            ) from error
        return AsyncRedisLock(option)
    scheme = option.partition(":")[0]  # and no more of it: the rest may hold a password
    raise ConfigurationError(f"lock={scheme!r}: expected 'local' or redis://host:port/db")
