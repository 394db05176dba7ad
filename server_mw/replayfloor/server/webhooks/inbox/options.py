"""The options of the workers, checked once at construction. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypedDict

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.options import OnEvent
from replayfloor.server.policy import Effects, Options
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores.postgres_options import OPERATION_S
from replayfloor.server.webhooks.inbox.apply import Limits
from replayfloor.server.webhooks.inbox.backoff import ATTEMPTS_MAX, FIRST_S, LONGEST_S
from replayfloor.server.webhooks.inbox.values import InboxItem

WORKERS: Final = 4
"""Events that one process applies at a time. Handlers mostly wait, and each may hold a connection
of the database's 100."""

LEASE_S: Final = 30.0
"""The middleware's own default."""

LEASE_S_MIN: Final = 0.05
LEASE_S_MAX: Final = 86_400.0
"""It counts in a 32-bit integer of milliseconds; beyond a day it is a mistake of unit."""

POLL_S: Final = 1.0
"""How often an idle worker looks for what is due again, and for what nobody woke it for: one cheap
look a second. A sender has its answer by then, so nobody waits for this second."""

GRACE_S: Final = 20.0
"""How long events that are being applied may take once the worker has been told to stop; common
servers and orchestrators kill after 30 s."""

EffectsOf: TypeAlias = Callable[[InboxItem], "Effects | None"]
"""Says where the handler of an event writes; None if no route takes it any more."""


class WorkerOptions(TypedDict, total=False):
    """Options of the workers; all may be left out.

    namespace: the middleware's. Default: "default".
    workers: how many events are applied at a time, per process. Default: 4.
    lease_s: how soon a dead worker is noticed, in seconds; a handler may take longer, its lease is
        renewed. Default: 30.
    poll_s: how often the inbox is looked into while it is empty, in seconds. Default: 1.
    listen: whether to be woken by the database as soon as an event is stored, on a connection of
        its own. False behind PgBouncer in transaction mode, where nobody can be. Default: True.
    attempts_max: after how many attempts an event is dead. Default: 20.
    backoff_first_s, backoff_longest_s: the upper ends of the first and the longest pause between
        attempts; they double, and each is cut at random. Default: 5 s and 6 h.
    operation_s: seconds until an operation counts as not answered. Default: 5.
    sealer: the middleware's, if it has a response_cipher.
    on_event: called with a ServerEvent for what becomes of each event.
    random: returns a number from 0 to below 1.
    """

    namespace: str
    workers: int
    lease_s: float
    poll_s: float
    listen: bool
    attempts_max: int
    backoff_first_s: float
    backoff_longest_s: float
    operation_s: float
    sealer: Sealer
    on_event: OnEvent | None
    random: Callable[[], float]


def _no_sealer() -> Sealer:
    return Sealer(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """WorkerOptions with their defaults."""

    namespace: str = "default"
    workers: int = WORKERS
    lease_s: float = LEASE_S
    poll_s: float = POLL_S
    listen: bool = True
    attempts_max: int = ATTEMPTS_MAX
    backoff_first_s: float = FIRST_S
    backoff_longest_s: float = LONGEST_S
    operation_s: float = OPERATION_S
    sealer: Sealer = field(default_factory=_no_sealer)
    on_event: OnEvent | None = None
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ConfigurationError."""
        if not LEASE_S_MIN <= self.lease_s <= LEASE_S_MAX:
            raise ConfigurationError(f"lease_s must be from {LEASE_S_MIN} to {LEASE_S_MAX:g}")
        if self.poll_s <= 0 or self.attempts_max < 1:
            raise ConfigurationError("poll_s must be above 0, and attempts_max 1 at least")
        if not 0 <= self.backoff_first_s <= self.backoff_longest_s:
            raise ConfigurationError("backoff_first_s must not be above backoff_longest_s")

    @property
    def limits(self) -> Limits:
        """What the flow has to know."""
        return Limits(
            lease_ms=round(self.lease_s * 1000),
            poll_ms=max(1, round(self.poll_s * 1000)),
            attempts_max=self.attempts_max,
            first_s=self.backoff_first_s,
            longest_s=self.backoff_longest_s,
        )

    def options(self, effects: Effects) -> Options:
        """Return what a claim of the application is made with."""
        return Options(effects=effects, lease_ms=round(self.lease_s * 1000), until_success=True)
