"""What the worker processes leave behind: one JSON object a line, written by the kernel at once.

A line that was written survives SIGKILL; the harness reads the files after the run. Writing and
reading only, nothing is judged here.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from replayfloor.server.events import EventKind, ServerEvent

BEGUN, ENDED, STALLED = "execution begun", "execution ended", "stalled"

LEFT_OUT = frozenset({EventKind.REPLAYED, EventKind.REFUSED, EventKind.LOCK_UNAVAILABLE})
"""Events that tell nothing about an execution."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line: an event of the middleware by its kind, or one of the names above."""

    at: float
    pid: int
    what: str
    receipt: str
    detail: str = ""


class Trail:
    """The end of a worker."""

    def __init__(self, path: Path) -> None:
        """Append to a file."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, what: str, receipt: str, detail: str = "") -> None:
        """Write one line."""
        line = asdict(Note(time.time(), os.getpid(), what, receipt, detail))
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def on_event(self, event: ServerEvent) -> None:
        """Write what the middleware tells."""
        if event.kind not in LEFT_OUT:
            self.note(event.kind.value, event.receipt_id, event.detail[:200])


def read_trails(paths: Iterable[Path]) -> dict[str, list[Note]]:
    """Return the notes of all workers by receipt, oldest first; those of no receipt under ""."""
    notes = defaultdict[str, list[Note]](list)
    for path in paths:
        for line in path.read_text().splitlines():
            note = Note(**json.loads(line))
            notes[note.receipt].append(note)
    for each in notes.values():
        each.sort(key=lambda note: note.at)
    return notes
