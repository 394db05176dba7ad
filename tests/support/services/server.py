"""One server process: start, stop, kill -9, freeze. What differs by kind is in the subclasses."""

from __future__ import annotations

import abc
import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .account import Account
from .processes import Watchdog, children, send

LOOPBACK = "127.0.0.1"
# Below Linux's ephemeral range (32768 and up), so that no client socket takes the port while the
# server is down. The bus of a Redis Cluster is at a port 10000 higher: of those, too, none is given
# to another server, also while the node is down.
PORT_RANGE = (15000, 21999)
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.01
RETRY_S = 0.05
LOG_TAIL_BYTES = 2000


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    while True:
        port = random.randint(*PORT_RANGE)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            return port


@dataclass(frozen=True, slots=True)
class Site:
    """What the servers of one run share."""

    base: Path
    account: Account
    env: Mapping[str, str]
    watchdog: Watchdog


class Server(abc.ABC):
    """A server that keeps its port, its data and its log over restarts."""

    stop_signal = signal.SIGTERM

    def __init__(self, site: Site, name: str, *, account: Account) -> None:
        self.site = site
        self.dir = site.base / name
        self.log = site.base / f"{name}.log"
        self.port = free_port()
        self.crashed = False
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The address as our own constructors take it."""

    @abc.abstractmethod
    def argv(self) -> list[str]:
        """The command line."""

    @abc.abstractmethod
    def ready(self) -> bool:
        """Say whether it takes connections; asked until it does."""

    @property
    def pid(self) -> int:
        """The process id; the server must have been started."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the process is there, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def answering(self) -> bool:
        """Say whether it runs and nothing was done to it that keeps it from answering."""
        return self.running and not self._frozen

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it, if it does not run, and return once it answers."""
        deadline = time.monotonic() + timeout_s
        while not self.running and not self._attempt(deadline):
            tail = self.log.read_text(errors="replace")[-LOG_TAIL_BYTES:]
            # After kill -9 a busy backend may hold the shared memory for a moment: try again.
            if time.monotonic() > deadline or "pre-existing shared memory" not in tail:
                raise RuntimeError(f"{self.argv()[0]} did not start:\n{tail}")
            time.sleep(RETRY_S)

    def _attempt(self, deadline: float) -> bool:
        with self.log.open("ab") as log:
            self._process = self._account.spawn(
                self.argv(), cwd=self.site.base, env=self.site.env, log=log
            )
        self.site.watchdog.add(self.pid)
        while self.running and time.monotonic() < deadline:
            if self.ready():
                self.crashed = False
                return True
            time.sleep(POLL_S)
        self.crash()
        return False

    def stop(self) -> None:
        """Stop it in order, or by force if it does not."""
        self.thaw()
        self._end(self.stop_signal)

    def crash(self) -> None:
        """kill -9 of the server and its children, as if the machine had lost it.

        Each Postgres backend has a session of its own (killpg misses it), and a busy one outlives
        the postmaster, holding the shared memory: no restart until its query ends.
        """
        family: list[int] = []
        if self.running:
            send([self.pid], signal.SIGSTOP)  # so that no new child appears
            family = children(self.pid)
            self.crashed = True
        self._end(signal.SIGKILL)
        send(family, signal.SIGKILL)
        self._frozen = False

    def _end(self, signum: signal.Signals) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signum)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.site.watchdog.drop(self.pid)

    def freeze(self) -> None:
        """Let clients hang: they get neither an answer nor a closed connection."""
        self._frozen = True
        # The parent first: a Postgres that goes on would start another child meanwhile.
        send([self.pid], signal.SIGSTOP)
        send(children(self.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo `freeze`."""
        if self._frozen and self.running:
            send([*children(self.pid), self.pid], signal.SIGCONT)
        self._frozen = False

    def restore(self) -> None:
        """Bring it back, whatever a test did to it."""
        self.thaw()
        self.start()
