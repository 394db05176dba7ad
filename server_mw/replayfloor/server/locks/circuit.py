"""When a server that failed is asked again. No I/O; the state machine is pybreaker's.

Without this, every request of an outage would wait for the lock's timeout on its way to Postgres.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta

from pybreaker import (
    STATE_CLOSED,
    STATE_HALF_OPEN,
    CircuitBreaker,
    CircuitBreakerError,
    CircuitBreakerListener,
    CircuitBreakerState,
    CircuitMemoryStorage,
)

from replayfloor.server.locks.redis_failure import is_outage

OPEN_S = 2.0
"""How long nobody is asked after a failure. Then one request tries, and may have to wait for
LOCK_S; long enough that this is a rare request, short enough that a failover (some seconds) is
noticed soon after its end."""

CIRCUITS_MAX = 256
"""Servers that are remembered: far more than a cluster has primaries, and a bound for one whose
addresses change with every deployment."""

log = logging.getLogger("replayfloor.server")

__all__ = ["OPEN_S", "Circuit", "CircuitBreakerError", "Circuits"]


class Circuit:
    """Whether one server is asked. Any number of threads and tasks may use one."""

    def __init__(self, server: str, open_s: float, clock: Callable[[], float]) -> None:
        """Begin closed: the server is asked."""
        self._storage = _Monotonic(clock)
        self._breaker = CircuitBreaker(
            fail_max=1,
            reset_timeout=open_s,
            exclude=[self._proves_nothing],
            listeners=[_Report(server, open_s)],
            state_storage=self._storage,
            throw_new_error_on_trip=False,
        )
        self._probe = threading.Lock()
        self._as_usual = _AsUsual(self)

    @property
    def closed(self) -> bool:
        """Whether the server is asked without further ado."""
        return self._storage.state == STATE_CLOSED

    def attempt(self) -> AbstractContextManager[bool]:
        """Surround one operation, and say whether it is the probe after a failure.

        Raises CircuitBreakerError, at once, if the server is not to be asked.

        pybreaker lets everyone through who arrives while the probe is under way, and all of them
        would wait: hence the second lock, which is only tried, never waited for. Whoever saw the
        circuit closed just before it opened goes past that lock, as if a moment earlier.
        """
        return self._as_usual if self.closed else self._as_probe()

    @contextmanager
    def _as_probe(self) -> Generator[bool]:
        if not self._probe.acquire(blocking=False):
            raise CircuitBreakerError("another request is finding out")
        try:
            with self._breaker.calling():
                yield True
        finally:
            self._probe.release()

    def report(self, error: Exception) -> None:
        """Tell pybreaker of a failure. It need not hear of each success: the first failure opens.

        If the circuit was opened meanwhile (many fail at once), this is refused, and changes
        nothing.
        """
        with suppress(type(error), CircuitBreakerError), self._breaker.calling():
            raise error

    def _proves_nothing(self, error: BaseException) -> bool:
        """Say whether an error leaves the circuit closed, or closes it.

        A cancelled operation says nothing of the server. But if it was the probe, nothing was
        found out, and the circuit must not close on that.
        """
        if isinstance(error, Exception):
            return not is_outage(error)
        return self._breaker.current_state != STATE_HALF_OPEN


class _AsUsual:
    """Surrounds operations of a closed circuit, any number at a time: it remembers nothing."""

    __slots__ = ("_circuit",)

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit

    def __enter__(self) -> bool:
        return False

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, Exception):
            self._circuit.report(error)


class Circuits:
    """A circuit per server: in a cluster, one primary that fails does not stop the others."""

    def __init__(self, open_s: float, clock: Callable[[], float]) -> None:
        """Begin with none."""
        self._open_s, self._clock = open_s, clock
        self._circuits: dict[str, Circuit] = {}
        self._adding = threading.Lock()

    def of(self, server: str) -> Circuit:
        """Return the server's circuit."""
        circuit = self._circuits.get(server)
        if circuit is not None:
            return circuit
        with self._adding:
            if len(self._circuits) >= CIRCUITS_MAX:
                self._circuits.clear()
            return self._circuits.setdefault(server, Circuit(server, self._open_s, self._clock))


class _Monotonic(CircuitMemoryStorage):
    """pybreaker's state, its moment of opening kept on a clock that is never set back.

    pybreaker compares that moment with the wall clock: so it is given as a wall clock time that
    is as long ago as the circuit has been open.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(STATE_CLOSED)
        self._clock = clock
        self._opened_s: float | None = None

    @property
    def opened_at(self) -> datetime | None:
        if self._opened_s is None:
            return None
        return datetime.now(UTC) - timedelta(seconds=self._clock() - self._opened_s)

    @opened_at.setter
    def opened_at(self, datetime: datetime) -> None:
        self._opened_s = self._clock()


class _Report(CircuitBreakerListener):
    """Tells the log: once when an outage begins, not of what happens in it, and once at its end."""

    def __init__(self, server: str, open_s: float) -> None:
        self._server, self._open_s = server, open_s
        self._cause = ""

    def failure(self, cb: CircuitBreaker, exc: BaseException) -> None:
        # Some messages hold clients as redis-py writes them, in older versions with the password.
        self._cause = f"{type(exc).__name__}: {re.sub('<.*>', '…', str(exc))}"

    def state_change(
        self,
        cb: CircuitBreaker,
        old_state: CircuitBreakerState | None,
        new_state: CircuitBreakerState,
    ) -> None:
        before = STATE_CLOSED if old_state is None else old_state.name
        match before, new_state.name:
            case "closed", "open":
                log.warning(
                    "the lock in %s fails (%s); every %g s one request tries it again",
                    self._server,
                    self._cause,
                    self._open_s,
                )
            case "half-open", "closed":
                log.info("the lock in %s answers again", self._server)
            case _:
                pass
