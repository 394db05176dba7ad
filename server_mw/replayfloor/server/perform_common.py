"""What performing effects has in common over ASGI and WSGI. No store, no request."""

from __future__ import annotations

import logging

from replayfloor.server.events import WORTH_A_WARNING, ServerEvent
from replayfloor.server.settings import Settings

log = logging.getLogger("replayfloor.server")

BODYLESS = frozenset({204, 205, 304})
"""Statuses whose answer has no body, and so no Content-Length either (RFC 9110, 8.6)."""

REPLAYED = (b"idempotent-replayed", b"true")
"""Marks an answer that is the stored one; Stripe's spelling, there is no standard for it."""

UNPROTECTED = (b"idempotency-unprotected", b"true")
"""Marks an answer whose request was executed without a receipt (`on_outage="execute"`)."""


def emit(settings: Settings, event: ServerEvent) -> None:
    """Log what the person on call has to find, and tell the listener. Never raises."""
    if event.source:
        unrecognised = settings.counts.note(event)
        if unrecognised is not None:
            emit(settings, unrecognised)
    if event.kind in WORTH_A_WARNING:
        log.warning("%s receipt=%s %s", event.kind.value, event.receipt_id, event.detail)
    if settings.on_event is not None:
        try:
            settings.on_event(event)
        except Exception:
            # A listener that fails must not decide over a payment.
            log.exception("on_event failed for %s", event.kind.value)
