"""The middleware's options, checked once at construction. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import KeyRules
from replayfloor.core.message import Headers
from replayfloor.server.events import ServerEvent
from replayfloor.server.locks import AsyncLock, open_async_lock
from replayfloor.server.policy import Options
from replayfloor.server.routes import Route, RouteTable, effects_of
from replayfloor.server.stores import AsyncReceipts, open_async_receipts

BODY_BYTES_MAX = 1024 * 1024
"""Request bytes held in memory to make the fingerprint; a larger body is refused with 413."""

RESPONSE_BYTES_MAX = 1024 * 1024
"""Answer bytes kept for a replay; a larger answer passes through and leaves a tombstone."""

CACHE_S = 3600.0
"""How long a receipt is also kept in the lock's place. Only a matter of memory: what is gone from
there comes from the receipts. Never longer than the retention."""

T = TypeVar("T")

OnEvent = Callable[[ServerEvent], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all requests of one middleware share."""

    receipts: AsyncReceipts
    lock: AsyncLock
    routes: RouteTable
    namespace: str
    body_bytes_max: int
    response_bytes_max: int
    lifetime_headers: Headers = field(default=())
    on_event: OnEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The constructor's arguments, as the two middlewares take them (see IdempotencyMiddleware)."""

    receipts: str | AsyncReceipts
    lock: str | AsyncLock
    routes: Sequence[Route] | None
    required: bool
    effects: str
    methods: Sequence[str]
    retention: timedelta | float | None
    lease_s: float
    wait_for_s: float
    namespace: str
    body_bytes_max: int
    response_bytes_max: int
    accept_unquoted: bool
    documentation: str
    on_event: OnEvent | None

    def to_settings(self) -> Settings:
        """Check everything and open nothing. Raises ConfigurationError."""
        self._check()
        retention_s = _seconds(self.retention)
        cache_s = CACHE_S if retention_s is None else min(CACHE_S, retention_s)
        defaults = Options(
            required=self.required,
            effects=effects_of(self.effects),
            lease_ms=_milliseconds("lease_s", self.lease_s),
            wait_ms=_milliseconds("wait_for_s", self.wait_for_s),
            cache_ms=round(cache_s * 1000),
            key_rules=KeyRules(accept_unquoted=self.accept_unquoted),
            documentation=self.documentation,
        )
        lifetime: Headers = ()
        if retention_s is not None:
            lifetime = ((b"idempotency-key-lifetime", str(int(retention_s)).encode()),)
        return Settings(
            receipts=_receipts(self.receipts),
            lock=_lock(self.lock),
            routes=RouteTable(self.routes or (), self.methods, defaults),
            namespace=self.namespace,
            body_bytes_max=self.body_bytes_max,
            response_bytes_max=self.response_bytes_max,
            lifetime_headers=lifetime,
            on_event=self.on_event,
        )

    def _check(self) -> None:
        if self.body_bytes_max < 0 or self.response_bytes_max < 0:
            raise ConfigurationError("body_bytes_max and response_bytes_max must not be negative")
        if isinstance(self.methods, str):
            raise ConfigurationError(f"methods={self.methods!r}: expected a sequence of methods")
        routes = cast("Sequence[object]", self.routes or ())
        if not all(isinstance(route, Route) for route in routes):
            raise ConfigurationError("routes: expected a sequence of Route(method, path_pattern)")
        if not _LINK.fullmatch(self.documentation):
            raise ConfigurationError("documentation: expected the URL of a page")


_LINK = re.compile(r"[!#-;=?-~]+")
"""What a URL may hold where it stands between angle brackets and quotes, in a header."""


def _receipts(option: str | AsyncReceipts) -> AsyncReceipts:
    if isinstance(option, str):
        return open_async_receipts(option)
    return _instance("receipts", option, "claim")


def _lock(option: str | AsyncLock) -> AsyncLock:
    if isinstance(option, str):
        return open_async_lock(option)
    return _instance("lock", option, "acquire")


def _instance(name: str, option: T, method: str) -> T:
    if not callable(getattr(option, method, None)):
        raise ConfigurationError(f"{name}: expected a URL or an instance, got {type(option)}")
    return option


def _milliseconds(name: str, seconds: float) -> int:
    if not math.isfinite(seconds):
        raise ConfigurationError(f"{name}={seconds}: expected a number of seconds")
    return round(seconds * 1000)


def _seconds(retention: timedelta | float | None) -> float | None:
    if retention is None:
        return None
    seconds = retention.total_seconds() if isinstance(retention, timedelta) else retention
    if not (math.isfinite(seconds) and seconds >= 1):
        raise ConfigurationError("retention must be at least one second, or None to keep receipts")
    return seconds
