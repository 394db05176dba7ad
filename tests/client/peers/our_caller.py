"""A process that calls our server through the transport: one function to post an operation with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from client.clients import NO_TLS, PATIENCE_S, named
from client.peers.colours import Colour
from replayfloor.client import MemoryJournal, Profile, RetryPolicy, profile
from replayfloor.client.clock import Clock, system_clock
from replayfloor.client.events import AttemptEnded, Event
from replayfloor.client.journal import Journal

OURS = profile("replayfloor")
POLICY = RetryPolicy(attempts_max=20, wait_base_s=0.01, wait_cap_s=0.05, budget_s=600)
NAP_S = 0.02
"""What a wait takes at most, where the test is not about its length."""

Post = Callable[..., httpx.Response]


@dataclass(kw_only=True)
class Caller:
    """A process that calls the server; its journal survives it."""

    colour: Colour
    port: int
    profile: Profile | None = OURS
    retry: RetryPolicy = POLICY
    journal: Journal = field(default_factory=MemoryJournal)
    clock: Clock = system_clock
    nap: Callable[[float], None] = lambda wait_s: time.sleep(min(wait_s, NAP_S))
    timeout_s: float = PATIENCE_S
    events: list[Event] = field(default_factory=list[Event])

    @contextmanager
    def calling(self) -> Iterator[Post]:
        """Start it; give a function that posts one operation."""
        with self._blocking() if self.colour.blocking else self._awaiting() as post:
            yield post

    @contextmanager
    def _blocking(self) -> Iterator[Post]:
        stack = self.colour.stack
        transport = stack.transport(
            stack.http_transport(verify=NO_TLS),
            profile=self.profile,
            journal=self.journal,
            sleep=self.nap,
            retry=self.retry,
            on_event=self.events.append,
            clock=self.clock,
        )
        with stack.client(transport=transport, timeout=self.timeout_s) as client:
            yield lambda *asked, **more: client.send(self._request(client, *asked, **more))

    @contextmanager
    def _awaiting(self) -> Iterator[Post]:
        stack = self.colour.stack

        async def nap(wait_s: float) -> None:
            await anyio.to_thread.run_sync(self.nap, wait_s)

        transport = stack.async_transport(
            stack.async_http_transport(verify=NO_TLS),
            profile=self.profile,
            journal=self.journal,
            sleep=nap,
            retry=self.retry,
            on_event=self.events.append,
            clock=self.clock,
        )
        client = stack.async_client(transport=transport, timeout=self.timeout_s)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
            yield lambda *asked, **more: portal.call(
                client.send, self._request(client, *asked, **more)
            )

    def _request(
        self,
        client: httpx.Client | httpx.AsyncClient,
        operation: str,
        path: str = "/charges",
        key: str | None = None,
        headers: dict[str, str] | None = None,
        **more: object,
    ) -> httpx.Request:
        return client.build_request(
            "POST",
            f"http://127.0.0.1:{self.port}{path}",
            json={"payment": operation, **more},
            headers=headers,
            extensions=named(operation, key),
        )

    def attempts(self) -> list[AttemptEnded]:
        """Return how each attempt ended."""
        return [event for event in self.events if isinstance(event, AttemptEnded)]
