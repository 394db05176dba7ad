"""A process that has imported everything and forks a worker whenever it is asked for one.

A forked worker serves its first request after some 50 ms; started as an interpreter of its own it
needs a second, and the tests here kill hundreds. This file is both ends: `ForkServer` is the
test's, `main` the process's. What a worker serves is in `serving`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, cast

TESTS = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
BACKLOG = 128


class ForkServer:
    """Forks workers; any number of threads may ask. No worker outlives `close`.

    Args:
        clock_skew_s: how far ahead of the machine's clock the workers' is.
    """

    def __init__(self, clock_skew_s: float = 0.0) -> None:
        """Start the process; it forks nothing yet."""
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.fork_server", str(clock_skew_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            start_new_session=True,  # Ctrl-C must not reach it: it ends with its input
        )

    def fork(self, environment: Mapping[str, str], port: int, log: Path) -> int:
        """Return the pid of a new worker; connections to its port wait until it serves.

        Returns 0 if the port is taken.
        """
        order = {"environment": dict(environment), "port": port, "log": str(log)}
        return self._ask("fork", order)

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a worker, unless it has ended."""
        self._ask("send", {"pid": pid, "number": int(number)})

    def ended(self, pid: int) -> bool:
        """Say whether a worker has ended."""
        return self._ask("ended", {"pid": pid}) == 1

    def close(self) -> None:
        """End the process and every worker that is left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, what: str, order: Mapping[str, object]) -> int:
        with self._one_at_a_time:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps({"what": what, **order}) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the fork server has died; its traceback is on stderr")
        return int(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


# -- in the process that forks ----------------------------------------------------------------


class Family:
    """The workers that were forked. A pid is only signalled while it has not been reaped: after
    that it may be another process's."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def obey(self, what: str, **order: object) -> int:
        """Do what `ForkServer` has asked for."""
        match what, order:
            case "fork", {"environment": dict(environment), "port": int(port), "log": str(log)}:
                return self.fork(cast("dict[str, str]", environment), port, log)
            case "send", {"pid": int(pid), "number": int(number)}:
                return self.send(pid, number)
            case "ended", {"pid": int(pid)}:
                return self.ended(pid)
            case _:
                raise ValueError(f"an order that nobody here gives: {what} {order}")

    def fork(self, environment: Mapping[str, str], port: int, log: str) -> int:
        """Fork a worker; its port is bound before, so that a client can connect at once."""
        from support.serving import serve

        try:
            listener = socket.create_server((HOST, port), backlog=BACKLOG)
        except OSError:
            return 0
        pid = os.fork()
        if pid:
            listener.close()
            self._pids.add(pid)
            return pid
        status = 1
        try:
            _redirect(log)
            serve(environment, listener)
            status = 0
        except BaseException:  # noqa: BLE001 - the end of a process: there is nobody to raise to
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def send(self, pid: int, number: int) -> int:
        """Send a signal to a worker, unless it has ended."""
        if not self.ended(pid):
            os.kill(pid, number)
        return 0

    def ended(self, pid: int) -> int:
        """Say whether a worker has ended."""
        if pid in self._pids and os.waitpid(pid, os.WNOHANG) != (0, 0):
            self._pids.discard(pid)
        return int(pid not in self._pids)

    def kill(self) -> None:
        """Kill whoever is left, also one that stands still."""
        for pid in list(self._pids):
            self.send(pid, signal.SIGKILL)


def _redirect(log: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def main() -> None:
    """Obey the orders of the input, one line each, and kill all workers at its end."""
    import support.serving  # noqa: F401 - before the first fork, for all of them

    family = Family()
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin:
            sys.stdout.write(f"{family.obey(**json.loads(line))}\n")
            sys.stdout.flush()
    family.kill()


if __name__ == "__main__":
    from support.skewed_clock import skew

    # Before anything else is imported: a module may keep a clock from its import on.
    skew(float(sys.argv[1]))
    main()
