"""uvicorn workers of the ledger application as processes of their own, to be killed at will."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from support.services.server import free_port

TESTS = Path(__file__).resolve().parent.parent
START_S = 30.0


class Worker:
    """One server process. `url` stays the same over kill and restart."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        """Choose a port; start nothing. `environment` is what LEDGER_… variables say."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        self._environment = {**os.environ, **environment, "PYTHONPATH": str(TESTS)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Worker:
        """Start, and wait until it answers."""
        command = [sys.executable, "-m", "uvicorn", "support.ledger_app:app"]
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *options], env=self._environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                httpx.get(f"{self.url}/ready", timeout=1).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.05)
            else:
                return self
        raise RuntimeError(f"the worker did not start:\n{self._log.read_text(errors='replace')}")

    def kill(self) -> None:
        """kill -9: nothing is cleaned up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
