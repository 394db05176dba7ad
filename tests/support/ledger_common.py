"""What the ledger application is on either side: its routes, its options, where it writes.

Handlers write one row per execution, for tests that count effects. `LEDGER_…` variables say how
the application is protected and where it writes. No ASGI and no WSGI here.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TypedDict

from replayfloor.server import Route
from replayfloor.server.events import ServerEvent
from replayfloor.server.options import OnEvent
from support.failpoints import Steps
from support.ledger import Ledger

POLL_S = 0.01
"""How often a handler that waits for a loss looks."""

ROUTES = (
    Route("POST", "/atomic", effects="atomic"),
    Route("POST", "/repeatable", effects="repeatable"),
    # Says so and is not: what the tests have to find out.
    Route("POST", "/mislabelled", effects="repeatable"),
)


class Protection(TypedDict):
    """Options that both middlewares are given."""

    required: bool
    routes: tuple[Route, ...]
    lease_s: float
    wait_for_s: float
    on_event: OnEvent


class LedgerState:
    """What the handlers of one process share."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Write where the environment says; count steps."""
        receipts = environment["LEDGER_RECEIPTS"]
        self._environment = environment
        self._own = Ledger(environment.get("LEDGER_EFFECTS", receipts))
        self._events: list[ServerEvent] = []
        self._pausing: Counter[str] = Counter()
        self._one_at_a_time = threading.Lock()
        self.insert = Ledger(receipts).insert
        self.steps = Steps(environment)

    def protection(self) -> Protection:
        """Return the options that the environment asks for."""
        return Protection(
            required=True,
            routes=ROUTES,
            lease_s=float(self._environment.get("LEDGER_LEASE_S", "30")),
            wait_for_s=float(self._environment.get("LEDGER_WAIT_FOR_S", "0")),
            on_event=self._events.append,
        )

    def write(self, payment: str, run: str, name: str | None = None) -> None:
        """Write one row, committed before this returns, as another service would."""
        reach = self.steps.reach
        reach("effect begun")
        self._own.write(
            payment, run, name, before_commit=lambda: reach("effect written and not committed")
        )
        reach("effect committed")

    @contextmanager
    def pausing(self, when: str) -> Generator[None]:
        """Tell who asks that a handler pauses "before" or "after" its effect."""
        self._count(when, 1)
        try:
            yield
        finally:
            self._count(when, -1)

    def _count(self, when: str, more: int) -> None:
        with self._one_at_a_time:
            self._pausing[when] += more

    def questions(self) -> dict[str, object]:
        """Return the answers to unprotected questions, by path."""
        return {
            "/ready": {"time": time.time(), **self._pausing},
            "/events": [(event.kind.value, event.receipt_id) for event in self._events],
            "/steps": list(self.steps.reached),
        }


def new_run() -> str:
    """Return a name for an execution."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"
