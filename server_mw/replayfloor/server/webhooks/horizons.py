"""What is checked at start-up: receipts outlive what a sender may deliver again. Arithmetic."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from replayfloor.retention import HorizonUnknown, InboundPolicy
from replayfloor.server.routes import Route
from replayfloor.server.webhooks.source import WebhookSource

log = logging.getLogger("replayfloor.server")

UNVERIFIED = (
    "%s %s: webhook(%r) verifies nothing, so whoever can reach it can use up the ids of events to "
    "come; give it verify=…, or verify=None if that is done before"
)


def check_webhooks(
    routes: Iterable[Route], retention_s: float | None, policy: InboundPolicy | None
) -> None:
    """Check each route that receives webhooks, and warn of those that verify nothing.

    Raises what `require_horizon` raises.
    """
    for route in routes:
        if route.key is None:
            continue
        require_horizon(route.key.source, retention_s, policy)
        if route.key.unverified:
            log.warning(UNVERIFIED, route.method, route.path_pattern, route.key.source.name)


def require_horizon(
    source: WebhookSource, retention_s: float | None, policy: InboundPolicy | None
) -> None:
    """Refuse to receive from a sender that may deliver again when the receipt is gone.

    A policy that names the sender has the last word: its figures were chosen by somebody, and the
    retention was held against its floor before. `retention_s` is None if receipts are kept for
    good. Raises RetentionTooShort, which names both lengths; HorizonUnknown if no figure is known.
    """
    if retention_s is None:
        return
    sender = source.sender
    names = {source.name} if sender is None else {source.name, sender.name}
    if policy is not None and any(each.name in names for each in policy.senders):
        return
    if sender is None:
        raise HorizonUnknown(
            f"webhook {source.name!r}: nobody says for how long it is delivered again",
            advice=f"name it among the senders of the policy: Sender({source.name!r}, "
            'automatic_retry="…", manual_resend="…"), or give it to the WebhookSource as sender=',
        )
    InboundPolicy(f"webhook {source.name}", senders=(sender,)).require(retention_s)
