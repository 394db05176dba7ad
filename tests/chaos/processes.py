"""The worker processes, from outside: started, killed, stopped, and started again on their port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from chaos.bank import HOST
from chaos.worker import WorkerPlan
from support.services.server import free_port

TESTS = Path(__file__).resolve().parent.parent
START_S = 30.0
POLL_S = 0.05


class WorkerProcess:
    """One worker over its lives; `trail` and `log` are those of all of them."""

    def __init__(self, folder: Path, number: int, plan: WorkerPlan) -> None:
        """Choose a port; start nothing."""
        self.port = free_port()
        self.trail = folder / f"trail-{number}.jsonl"
        self.log = folder / f"worker-{number}.log"
        self._plan = replace(plan, port=self.port, trail=str(self.trail))
        self._process: subprocess.Popen[bytes] | None = None
        self._spare = self._spawn()

    @property
    def pid(self) -> int:
        """The process of this life."""
        assert self._process is not None
        return self._process.pid

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start a process that imports what it needs and waits: killed ones are replaced at once.

        It has a group of its own, which Ctrl-C does not reach; and as that group is an orphan once
        we are gone, the kernel wakes and ends a process in it that stands still.
        """
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "chaos.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,
            )

    def start(self) -> None:
        """Start, and wait until it takes connections. Raises RuntimeError."""
        self._process = self._spare
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(self._plan)).encode() + b"\n")
        self._process.stdin.flush()
        deadline = time.monotonic() + START_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the worker did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(POLL_S)
        self._spare = self._spawn()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, also of one that stands still."""
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()

    def close(self) -> None:
        """Kill it and its replacement."""
        self.kill()
        self._process = self._spare
        self.kill()

    @property
    def ended(self) -> bool:
        """Whether it has ended, of itself or not."""
        return self._process is None or self._process.poll() is not None
