"""A double of Stripe's API: objects by key, as its documentation describes keys, and faults.

It keeps the first answer under a key and repeats it with `Idempotent-Replayed`, refuses a key that
is in use (409) or that comes with other parameters (400), and forgets keys after their retention.
What was executed is counted by key: that is what a customer would have paid.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from client.loopback import DROP, Loopback, Received, Reply, Step

RETENTION_S = {"v1": 86_400, "v2": 30 * 86_400}
"""Seconds for which either API keeps a key."""

STILL_RUNNING = 2
"""How many requests find the key of a slow execution in use."""


class Fault(Enum):
    """What happens to one request."""

    NONE = auto()
    LOST_REQUEST = auto()
    """The connection ends before anything is executed."""
    LOST_REPLY = auto()
    """It is executed, and the connection ends without an answer."""
    SLOW = auto()
    """The connection ends at once; the execution ends after STILL_RUNNING further requests."""
    FAILED = auto()
    """It is executed, fails after that, and the 500 is kept under the key."""
    FAILED_FOR_GOOD = auto()
    """The same, and the answer says that another attempt makes no sense."""
    LOCKED = auto()
    """Nothing is executed or kept: another request holds a lock. The answer asks to try again."""


@dataclass(slots=True)
class Kept:
    """What is known under a key; `running` is how many more requests find it in use."""

    at_ns: int
    request: tuple[str, bytes]
    answer: Reply | None = None
    running: int = 0


@dataclass
class StripeDouble(Loopback):
    """The double; `faults` are those of the next requests, and `then` of all after them."""

    clock: Callable[[], int] = lambda: 0
    faults: list[Fault] = field(default_factory=list[Fault])
    then: Fault = Fault.NONE
    effects: list[str] = field(default_factory=list[str])
    """The key of each execution."""
    kept: dict[tuple[str, str], Kept] = field(default_factory=dict[tuple[str, str], Kept])

    def plan(self, *faults: Fault, then: Fault = Fault.NONE) -> None:
        """Say what happens to the next requests."""
        self.faults, self.then = list(faults), then

    def take(self, received: Received) -> Step:
        """Count a request; return its answer."""
        with self.lock:
            self.received.append(received)
            fault = self.faults.pop(0) if self.faults else self.then
            return self._answer(received, fault)

    def _answer(self, received: Received, fault: Fault) -> Step:
        keys = received.values("idempotency-key")
        if received.method == "GET":
            return _object(200, {"id": "pi_0", "object": "payment_intent"})
        if len(keys) != 1:
            return _error(400, "invalid_request_error", "exactly one key is wanted")
        if fault is Fault.LOST_REQUEST:
            return DROP
        api = received.path.split("/")[1]
        kept = self._known(api, keys[0])
        if kept is not None:
            return self._again(kept, keys[0], received, fault)
        if fault is Fault.LOCKED:
            return _error(409, "invalid_request_error", "locked", code="lock_timeout", hint="true")
        kept = Kept(self.clock(), (received.path, received.body))
        self.kept[api, keys[0]] = kept
        if fault is Fault.SLOW:
            kept.running = STILL_RUNNING
            return DROP
        return self._execute(kept, keys[0], fault)

    def _known(self, api: str, key: str) -> Kept | None:
        kept = self.kept.get((api, key))
        if kept is None or self.clock() - kept.at_ns >= RETENTION_S[api] * 1_000_000_000:
            return None
        return kept

    def _again(self, kept: Kept, key: str, received: Received, fault: Fault) -> Step:
        """Answer a request whose key is known."""
        if kept.request != (received.path, received.body):
            return _error(400, "idempotency_error", "the parameters are not those of the first one")
        if kept.running:
            kept.running -= 1
            return _error(409, "invalid_request_error", "running", code="idempotency_key_in_use")
        if kept.answer is None:
            self._execute(kept, key, Fault.NONE)
        if fault is Fault.LOST_REPLY:
            return DROP
        assert kept.answer is not None
        headers = (*kept.answer.headers, ("Idempotent-Replayed", "true"))
        return Reply(kept.answer.status, headers, kept.answer.body)

    def _execute(self, kept: Kept, key: str, fault: Fault) -> Step:
        self.effects.append(key)
        kept.answer = _object(200, {"id": f"pi_{len(self.effects)}", "object": "payment_intent"})
        if fault in (Fault.FAILED, Fault.FAILED_FOR_GOOD):
            hint = "false" if fault is Fault.FAILED_FOR_GOOD else ""
            kept.answer = _error(500, "api_error", "it failed somewhere", hint=hint)
        return DROP if fault is Fault.LOST_REPLY else kept.answer


def _object(status: int, content: dict[str, object], hint: str = "") -> Reply:
    headers = (("Content-Type", "application/json"), ("Request-Id", "req_1"))
    hints = (("Stripe-Should-Retry", hint),) if hint else ()
    return Reply(status, headers + hints, json.dumps(content).encode())


def _error(status: int, kind: str, message: str, code: str = "", hint: str = "") -> Reply:
    error = {"type": kind, "message": message} | ({"code": code} if code else {})
    return _object(status, {"error": error}, hint)
