"""Process families, and the watchdog that outlives us. Standard library only and no import of
ours: this file also runs as a script, as the watchdog itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

# After the owner died: this long for a clean stop, then kill -9.
WATCHDOG_GRACE_S = 3.0
POLL_S = 0.05


def children(pid: int) -> list[int]:
    """Return the pids of the direct children."""
    if not Path("/proc/self").exists():
        return _children_by_ps(pid)
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended while we were looking
            # The name in the second field may hold blanks and parentheses.
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(stat.parent.name))
    return found


def _children_by_ps(pid: int) -> list[int]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return [int(own) for own, parent in rows if parent == str(pid)]


def send(pids: Iterable[int], signum: signal.Signals) -> None:
    """Send a signal to each of the processes that still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def alive(pid: int) -> bool:
    """Say whether the process still runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    if Path("/proc/self").exists():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


class Watchdog:
    """A process that ends the servers and removes their directory once our pipe to it closes.

    The pipe closes also when we are killed by -9, which no handler of ours would survive.
    """

    def __init__(self, base: Path) -> None:
        self._pids: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            text=True,
            start_new_session=True,
        )

    def add(self, pid: int) -> None:
        """Watch this server from now on."""
        self._pids.add(pid)
        self._tell()

    def drop(self, pid: int) -> None:
        """Forget this server: it ended, and its pid may soon be someone else's."""
        self._pids.discard(pid)
        self._tell()

    def _tell(self) -> None:
        assert self._process.stdin is not None
        print(*sorted(self._pids), file=self._process.stdin, flush=True)

    def close(self) -> None:
        """Let it remove the directory, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _watch(base: Path) -> None:
    last: list[int] = []
    for line in sys.stdin:
        last = [int(word) for word in line.split()]
    # A server may be frozen, and a Postgres whose children are does not stop.
    families = {pid: children(pid) for pid in last}
    everyone = [*families, *(child for family in families.values() for child in family)]
    send(everyone, signal.SIGCONT)
    send(families, signal.SIGQUIT)  # Postgres: stop at once, but give the shared memory back
    deadline = time.monotonic() + WATCHDOG_GRACE_S
    while any(alive(pid) for pid in everyone) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    send((pid for pid in everyone if alive(pid)), signal.SIGKILL)
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
