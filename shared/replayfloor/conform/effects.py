"""What a check may ask for: to send, to count, to wait, a fresh name. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replayfloor.core.effects import Effect
from replayfloor.core.message import Headers, get_all, get_first


class Leave(StrEnum):
    """When a client hangs up."""

    NEVER = "never"
    IN_BODY = "in the middle of its body"
    AFTER_SENDING = "after its request, before the answer"


@dataclass(frozen=True, slots=True)
class Sending:
    """One request. `path` has the query; `after_s` counts from the start of its exchange.

    `stay_s` is how long a client that leaves after sending waits before it does.
    """

    method: str
    path: str
    lines: Headers
    body: bytes
    chunked: bool = False
    after_s: float = 0.0
    leave: Leave = Leave.NEVER
    stay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back. Times are of one monotonic clock, in seconds.

    `failure` says why there is no complete answer, and is empty if there is one; `status` is 0
    then. Header names are in lower case.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    failure: str = ""
    began_s: float = 0.0
    ended_s: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the operation was accepted: 2xx or 3xx."""
        return 200 <= self.status < 400

    @property
    def refused(self) -> bool:
        """Whether the request was refused as the client's fault: 4xx."""
        return 400 <= self.status < 500

    def all(self, name: bytes) -> list[bytes]:
        """Return the values of every line of a header."""
        return get_all(self.headers, name)

    def first(self, name: bytes) -> bytes | None:
        """Return the value of the first line of a header, or None."""
        return get_first(self.headers, name)

    def __str__(self) -> str:
        """Name it in a sentence."""
        return self.failure or str(self.status)


@dataclass(frozen=True, slots=True)
class Exchange(Effect[tuple[Seen, ...]]):
    """Send these at once, each after its `after_s`; answers in the order of the sendings."""

    sendings: tuple[Sending, ...]


@dataclass(frozen=True, slots=True)
class Count(Effect[int]):
    """Ask the server how many effects it has had, in all or of the operation `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class FreshName(Effect[str]):
    """Make a name that was never used: a random UUID."""


@dataclass(frozen=True, slots=True)
class Wait(Effect[None]):
    """Let time pass."""

    seconds: float
