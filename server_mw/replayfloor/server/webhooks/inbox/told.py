"""How the workers tell what happened: to the log, and to whoever listens."""

from __future__ import annotations

import logging

from replayfloor.server.events import WORTH_A_WARNING, ServerEvent
from replayfloor.server.options import OnEvent

log = logging.getLogger("replayfloor.server")


def tell(event: ServerEvent, on_event: OnEvent | None) -> None:
    """Log what the person on call has to find, and tell the listener. Never raises."""
    if event.kind in WORTH_A_WARNING:
        log.warning(
            "inbox: %s %s receipt=%s %s",
            event.kind.value,
            event.source,
            event.receipt_id,
            event.detail,
        )
    if on_event is not None:
        try:
            on_event(event)
        except Exception:
            # A listener that fails must not decide over an event.
            log.exception("on_event failed for %s", event.kind.value)
