"""What one transport has seen of servers' support for keys, in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from replayfloor.client.support import NoteSupport, RecallSupport, Support

PLACES_MAX: Final = 1000
"""Places remembered: a client that talks to more forgets the one it has not met for longest."""


class SupportMemory:
    """What one transport has seen, by place. Safe for threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Support] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, effect: RecallSupport) -> Support | None:
        """Perform RecallSupport."""
        with self._lock:
            return self._seen.get(effect.place)

    def note(self, effect: NoteSupport) -> None:
        """Perform NoteSupport. An answer without a lifetime does not take back an earlier one."""
        with self._lock:
            before = self._seen.pop(effect.place, Support())
            retention_s = effect.support.retention_s
            self._seen[effect.place] = Support(
                before.retention_s if retention_s is None else retention_s
            )
            if len(self._seen) > PLACES_MAX:
                self._seen.popitem(last=False)
