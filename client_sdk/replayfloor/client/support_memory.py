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
        # Without the lock: a place that is noted again is there all the while.
        return self._seen.get(effect.place)

    def note(self, effect: NoteSupport) -> None:
        """Perform NoteSupport. An answer without a lifetime does not take back an earlier one."""
        with self._lock:
            support = effect.support
            if support.retention_s is None:
                support = self._seen.get(effect.place, support)
            self._seen[effect.place] = support
            self._seen.move_to_end(effect.place)
            if len(self._seen) > PLACES_MAX:
                self._seen.popitem(last=False)
