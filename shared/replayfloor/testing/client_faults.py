"""What can go wrong around the client's flow, as values, and a provider that remembers keys.

The world in which it happens is in `client_world`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from replayfloor.client.profiles import NS_PER_S
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import JournalEntry
from replayfloor.core.message import Response

R = TypeVar("R")

IN_FLIGHT_MS = 2000
"""What the provider's "in flight" asks to wait."""


class Crash(Exception):
    """The process dies here. Only the journal and the provider remember anything."""


class Fate(StrEnum):
    """What happens to one attempt."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """No connection: nothing leaves."""
    REQUEST_LOST = "request lost"
    """It leaves and does not arrive."""
    REPLY_LOST = "reply lost"
    """It is executed, and the answer does not arrive."""
    TURNED_AWAY = "turned away"
    """Status 429."""
    INVALID = "invalid"
    """Status 400: refused, and not to be sent again as it is."""
    BROKEN_GATEWAY = "broken gateway"
    """Status 502, after the execution."""
    IN_FLIGHT = "in flight"
    """Our 409."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What happens to one attempt, and how long it waits for a connection and for the answer."""

    fate: Fate = Fate.ANSWERED
    pool_wait_s: float = 0.0
    took_s: float = 0.1


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """At which effect of a call the process dies, before or after it is performed."""

    effect: int
    after: bool


@dataclass(frozen=True, slots=True)
class Departure:
    """A request that left. `entry` is what the journal held at that moment.

    `at_ns` is the wall clock, `elapsed_ns` the time that has really passed since the first left.
    """

    key: str
    at_ns: int
    elapsed_ns: int
    entry: JournalEntry | None


def run_until_crash(flow: Flow[R], perform: Callable[[Effect[object]], object]) -> R:
    """Drive a flow to its end, or to a Crash, after which it is dropped: nothing is cleaned up."""
    answer: object = None
    failure: Exception | None = None
    try:
        while True:
            effect = flow.send(answer) if failure is None else flow.throw(failure)
            answer = failure = None
            try:
                answer = perform(effect)
            except StoreUnavailable as error:
                failure = error
    except StopIteration as stop:
        return cast("R", stop.value)
    finally:
        flow.close()


class SimulatedProvider:
    """Executes a key once while it remembers it. `executions` are the keys, in order."""

    def __init__(self, retention_s: float) -> None:
        self.executions: list[str] = []
        self._retention_ns = int(retention_s * NS_PER_S)
        self._first_seen_ns: dict[str, int] = {}

    def receive(self, key: str, at_ns: int) -> Response:
        """Execute or replay; return the answer."""
        seen_ns = self._first_seen_ns.get(key)
        if seen_ns is not None and at_ns < seen_ns + self._retention_ns:
            return Response(201, ((b"idempotent-replayed", b"true"),), b"")
        self._first_seen_ns[key] = at_ns
        self.executions.append(key)
        return Response(201, (), b"")
