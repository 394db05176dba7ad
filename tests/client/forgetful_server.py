"""A provider that forgets keys: past their retention, a key that comes again is executed again.

It notes when each request arrived and with which key, and counts what it has executed: the client
is not asked about that. A request whose key is being executed waits, and gets the same answer.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from client.loopback import DROP, Loopback, Received, Reply, Step

LOST = 0.1
"""The share of answers that are lost on their way."""
WORK_MAX_S = 0.02
"""An execution takes up to so long before its effect, and after it."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request; `first`: its key was not known, or not any more."""

    operation: str
    key: str
    at_ns: int
    first: bool


@dataclass(slots=True)
class Kept:
    """What is known under a key; `done` is held while it is executed."""

    at_ns: int
    run: str = ""
    done: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class ForgetfulServer(Loopback):
    """`effects`: the executions of each operation."""

    retention_s: float = 2.0
    random: random.Random = field(default_factory=random.Random)
    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    effects: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, more: int, seconds: float) -> None:
        """Wait until so many more requests have arrived, and no longer than so many seconds."""
        with self.arrived:
            wanted = len(self.arrivals) + more
            self.arrived.wait_for(lambda: len(self.arrivals) >= wanted, seconds)

    def take(self, received: Received) -> Step:
        """Execute a request, unless its key is known; return the answer."""
        (key,) = received.values("idempotency-key")
        operation = str(json.loads(received.body)["operation"])
        with self.arrived:
            kept = self._arrive(operation, key)
            before_s, after_s = (self.random.uniform(0, WORK_MAX_S) for _ in range(2))
            lost = self.random.random() < LOST
            self.arrived.notify_all()
        with kept.done:
            if not kept.run:
                time.sleep(before_s)
                with self.lock:
                    runs = self.effects[operation]
                    kept.run = f"{operation}-{len(runs)}"
                    runs.append(kept.run)
                time.sleep(after_s)
        return DROP if lost else Reply(201, body=json.dumps({"run": kept.run}).encode())

    def _arrive(self, operation: str, key: str) -> Kept:
        now_ns = time.time_ns()
        kept = self.kept.get(key)
        first = kept is None or now_ns - kept.at_ns >= self.retention_s * 1e9
        self.arrivals.append(Arrival(operation, key, now_ns, first))
        if kept is None or first:
            kept = self.kept[key] = Kept(now_ns)
        return kept
