"""Workers of the ledger application as processes of their own, to be killed at will."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from replayfloor.server.events import EventKind
from support.fork_server import HOST, ForkServer
from support.services.server import free_port

ANSWER_S = 30.0
STOP_S = 15.0
POLL_S = 0.005


class Worker:
    """One server process, which may be started again after its end."""

    def __init__(self, forks: ForkServer, log: Path, environment: Mapping[str, str]) -> None:
        """Choose a port; start nothing. `environment` is what LEDGER_… variables say."""
        self.port = free_port()
        self._forks, self._log = forks, log
        self._environment = dict(environment)
        self._pid: int | None = None

    @property
    def url(self) -> str:
        """The address; the same over kill and restart."""
        return f"http://{HOST}:{self.port}"

    def start(self, **changes: str) -> Worker:
        """Start, and wait until it answers. `changes` are variables, for this time only."""
        environment = self._environment | changes
        first_time = self._pid is None
        self._pid = self._forks.fork(environment, self.port, self._log)
        while self._pid == 0 and first_time:
            # Somebody took the port between our look and the fork.
            self.port = free_port()
            self._pid = self._forks.fork(environment, self.port, self._log)
        try:
            self.ask("/ready")
        except httpx.HTTPError as error:
            raise RuntimeError(f"the worker did not start:\n{self.log()}") from error
        return self

    def ask(self, path: str) -> httpx.Response:
        """Return the answer to an unprotected question."""
        # No certificate is ever needed here, and loading those of the system takes longer than
        # a request does.
        with httpx.Client(verify=False, trust_env=False, timeout=ANSWER_S) as client:
            return client.get(f"{self.url}{path}").raise_for_status()

    def pausing(self, when: str) -> int:
        """Return how many handlers pause "before" or "after" their effect at the moment."""
        return int(self.ask("/ready").json().get(when, 0))

    def receipts_with(self, event: EventKind) -> list[str]:
        """Return the ids of the receipts to which something has happened in this process."""
        events = self.ask("/events").json()
        return [receipt for kind, receipt in events if kind == event.value]

    def log(self) -> str:
        """Return what it has written to its log, over all its lives."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """kill -9: nothing is cleaned up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._pid is not None:
            self._forks.send(self._pid, number)

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._pid is not None and not self._forks.ended(self._pid)

    def wait(self, seconds: float = STOP_S) -> bool:
        """Wait until the process has ended; say whether it has."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return not self.running

    def _end(self, number: signal.Signals) -> None:
        self.send(signal.SIGCONT)
        self.send(number)
        if not self.wait():
            self.send(signal.SIGKILL)
            self.wait()
