"""Child processes that can be killed at any moment and never outlive the demo.

Three nets: each child leads a process group that is killed on the way out; each watches the pipe
that is its stdin, and exits when it closes, which the kernel does however this process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Self

from settings import DEMO, STOP_TIME_MAX_S

LOG_LINES_SHOWN = 15


class ChildFailed(Exception):
    """A child ended, or never started, without being told to; the message holds its last words."""


class Child:
    """A Python process that works for the demo."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, *command: str, log: Path, environment: Mapping[str, str]) -> Self:
        """Run `python command…`; what it writes to stderr is added to `log`."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env={**os.environ, **environment, **_imports()},
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def pid(self) -> int:
        """The process id, which is its group's as well."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    async def lines(self) -> AsyncIterator[str]:
        """Yield what the child says, line by line, to its end; a line cut short is left out."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.endswith(b"\n"):
                yield line.decode()

    def kill(self) -> None:
        """Send SIGKILL to the child and all it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Return the exit status once the child ended."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End the child: politely first, then for certain."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), STOP_TIME_MAX_S)
        self.kill()
        await self.wait()

    def failure(self, what: str) -> ChildFailed:
        """Return the error that tells how the child ended."""
        last = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        status = self._process.returncode
        return ChildFailed("\n".join([f"{what} (exit status {status})", *last]))


def _imports() -> dict[str, str]:
    """Look for modules beside the demo first, and never in the caller's directory."""
    inherited = os.environ.get("PYTHONPATH")
    places = [str(DEMO), *([inherited] if inherited else [])]
    return {"PYTHONPATH": os.pathsep.join(places), "PYTHONSAFEPATH": "1"}


def die_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however it went."""

    def watch() -> None:
        # Nothing is ever written to the pipe: a read returns when its other end is closed.
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


async def run_tool(*command: str, log: Path) -> None:
    """Run a Python command to its end. Raises ChildFailed if it does not succeed."""
    child = await Child.start(*command, log=log, environment={})
    try:
        async for _ in child.lines():
            pass
        if await child.wait() != 0:
            raise child.failure(f"{' '.join(command[1:3])} failed")
    finally:
        await child.stop()
