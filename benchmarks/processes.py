"""The processes of a throughput benchmark: workers that are measured, and the load generator."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.load_plan import Outcome, Plan

ROOT: Final = Path(__file__).resolve().parents[1]
START_S: Final = 30.0
STOP_S: Final = 15.0
POLL_S: Final = 0.05
LOG_TAIL: Final = 3000


class BenchmarkFailed(Exception):
    """A process did not start, or an answer was wrong: nothing was measured."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that serves.

    `pids` are the processes whose CPU time is its cost: all that handle requests.
    """

    port: int
    pids: tuple[int, ...]

    def ask(self, path: str) -> None:
        """Send a GET without a key. Raises OSError."""
        urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=START_S).close()


@contextmanager
def worker(
    command: Sequence[str], port: int, environment: Mapping[str, str] | None = None
) -> Generator[Worker]:
    """Start a server process, wait until it serves, and end it at the end.

    Raises BenchmarkFailed with what it wrote, if it does not serve.
    """
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(os.environ) | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end, process)
        served = Worker(port, ())
        deadline = time.monotonic() + START_S
        while not _serves(served):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                said = log.read()[-LOG_TAIL:].decode(errors="replace")
                raise BenchmarkFailed(f"{' '.join(command)} did not start:\n{said}")
            time.sleep(POLL_S)
        try:
            yield Worker(port, family(process.pid))
        except BenchmarkFailed as failed:
            log.seek(0)
            said = log.read()[-LOG_TAIL:].decode(errors="replace")
            raise BenchmarkFailed(f"{failed}\n{said}") from failed


def python_worker(app: str, port: int) -> list[str]:
    """Return the command of one uvicorn worker."""
    return [sys.executable, "-m", "benchmarks.worker", app, str(port)]


def _serves(worker: Worker) -> bool:
    try:
        worker.ask("/ready")
    except (URLError, OSError):
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def family(pid: int) -> tuple[int, ...]:
    """Return a process and its children, theirs included."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return tuple(found)


class Answering:
    """A process that answers each line of its input with an outcome."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take a process that has been started."""
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, line: str) -> Outcome:
        """Send a line, and wait for the outcome. Raises BenchmarkFailed for a wrong answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise BenchmarkFailed(f"{self._process.args!r} has ended")
        outcome = Outcome.of_json(answer)
        if outcome.wrong:
            raise BenchmarkFailed(f"after {outcome.requests} answers:\n{outcome.wrong}")
        return outcome


@contextmanager
def answering(command: Sequence[str]) -> Generator[Answering]:
    """Start such a process, and end it at the end."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Answering(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class LoadGenerator:
    """The load generator, as its parent sees it."""

    def __init__(self, process: Answering) -> None:
        """Take a process that has been started."""
        self._process = process

    def run(self, plan: Plan) -> Outcome:
        """Carry out a plan. Raises BenchmarkFailed for a wrong answer."""
        return self._process.ask(plan.as_json())


@contextmanager
def load_generator() -> Generator[LoadGenerator]:
    """Start the load generator, and end it at the end."""
    with answering([sys.executable, "-m", "benchmarks.load"]) as process:
        yield LoadGenerator(process)
