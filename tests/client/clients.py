"""Clients over the transports under test, with a clock of their own that waits advance."""

from __future__ import annotations

import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpx

from replayfloor.client import (
    AsyncIdempotentTransport,
    IdempotentTransport,
    MemoryJournal,
    OperationInfo,
    Profile,
    RetryPolicy,
)
from replayfloor.client.budget import RetryBudget
from replayfloor.client.clock import Clock
from replayfloor.client.events import Event
from replayfloor.client.journal import Journal

PROFILE = Profile(name="provider", retention_s=86_400)
POLICY = RetryPolicy(attempts_max=4, wait_base_s=1, wait_cap_s=4, budget_s=60)
START_NS = 1_800_000_000_000_000_000
NO_TLS = ssl.create_default_context()
"""One for all clients: making one takes longer than most tests."""
PATIENCE_S = 10.0
"""Longer than any wait of a test that passes."""


@dataclass
class FakeTime:
    """A clock that only the waits move, and the test."""

    now_ns: int = START_NS
    waits_s: list[float] = field(default_factory=list[float])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def clock(self) -> int:
        return self.now_ns

    def sleep(self, wait_s: float) -> None:
        self.waits_s.append(wait_s)
        self.pass_time(wait_s)

    async def sleep_async(self, wait_s: float) -> None:
        self.sleep(wait_s)

    def pass_time(self, seconds: float) -> None:
        step_ns = int(seconds * 1e9)
        with self.lock:
            self.now_ns += step_ns


@dataclass
class Setup:
    """What a client of these tests is made of; the journal survives the client."""

    profile: Profile = PROFILE
    retry: RetryPolicy = POLICY
    journal: Journal = field(default_factory=MemoryJournal)
    time: FakeTime = field(default_factory=FakeTime)
    events: list[Event] = field(default_factory=list[Event])
    on_event: Callable[[Event], None] | None = None
    budget: RetryBudget | None = None
    clock: Clock | None = None
    limits: httpx.Limits = field(default_factory=lambda: httpx.Limits(max_connections=10))

    @contextmanager
    def client(self, inner: httpx.BaseTransport | None = None) -> Iterator[httpx.Client]:
        """A blocking client: what a process has that has just started."""
        transport = IdempotentTransport(
            inner or httpx.HTTPTransport(verify=NO_TLS, limits=self.limits),
            profile=self.profile,
            journal=self.journal,
            retry=self.retry,
            on_event=self.on_event or self.events.append,
            budget=self.budget,
            clock=self.clock or self.time.clock,
            sleep=self.time.sleep,
            random=lambda: 0.5,
        )
        with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
            yield client

    @asynccontextmanager
    async def async_client(
        self, inner: httpx.AsyncBaseTransport | None = None
    ) -> AsyncIterator[httpx.AsyncClient]:
        """The same with await."""
        transport = AsyncIdempotentTransport(
            inner or httpx.AsyncHTTPTransport(verify=NO_TLS, limits=self.limits),
            profile=self.profile,
            journal=self.journal,
            retry=self.retry,
            on_event=self.on_event or self.events.append,
            budget=self.budget,
            clock=self.clock or self.time.clock,
            sleep=self.time.sleep_async,
            random=lambda: 0.5,
        )
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE_S) as client:
            yield client


def info(response: httpx.Response) -> OperationInfo:
    """Return what the transport tells of an answer."""
    found = response.extensions["idempotency"]
    assert isinstance(found, OperationInfo)
    return found


def named(operation_id: str, key: str | None = None) -> dict[str, object]:
    """Return the extensions of a request that names its operation."""
    options = {"operation_id": operation_id} | ({"key": key} if key else {})
    return {"idempotency": options}
