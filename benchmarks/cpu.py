"""CPU time of other processes, from the kernel's own account of each thread. Linux only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


def cpu_s(pids: Iterable[int]) -> float:
    """Return the seconds of CPU that the processes have had, over their living threads.

    The scheduler's account is in nanoseconds; /proc/<pid>/stat counts hundredths of a second, which
    is one part in a hundred of what is measured here.
    """
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # a thread that ended while we were looking
                total += int(task.read_text().split()[0])
    return total / 1e9


def resident_bytes(pids: Iterable[int]) -> int:
    """Return how much memory the processes have in use, pages shared between them twice."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total
