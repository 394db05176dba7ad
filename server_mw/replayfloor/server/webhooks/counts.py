"""Stand-in until the real one is written."""

from __future__ import annotations

from replayfloor.server.events import ServerEvent


class DeliveryCounts:
    """Counts nothing yet."""

    def note(self, event: ServerEvent) -> ServerEvent | None:
        """Take an event."""
        del event
        return None
