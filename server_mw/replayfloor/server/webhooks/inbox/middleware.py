"""What a middleware has to say of its inbox: whether there is one, and where its handlers write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replayfloor.server.policy import Effects
from replayfloor.server.routes import RouteTable
from replayfloor.server.settings import Settings
from replayfloor.server.webhooks.inbox.values import InboxItem

if TYPE_CHECKING:
    from replayfloor.server.webhooks.inbox.options import WorkerOptions

WORKERS: Final = 4
"""See the workers' own option; what `inbox_workers=0` leaves to another process."""


def fills_inbox(settings: Settings) -> bool:
    """Return whether a route acknowledges before it applies."""
    return any(
        options.webhook is not None and options.webhook.ack == "first"
        for _, options in settings.routes.routes
    )


def worker_options(settings: Settings, workers: int | None) -> WorkerOptions:
    """Return the options of the workers; `workers` stands before the middleware's own."""
    number = settings.inbox_workers or WORKERS if workers is None else workers
    return {
        "namespace": settings.namespace,
        "workers": number,
        "lease_s": settings.routes.defaults.lease_ms / 1000,
        "sealer": settings.sealer,
        # The workers log for themselves, and an attempt of theirs is no delivery to be counted.
        "on_event": settings.on_event,
    }


def effects_of(routes: RouteTable, item: InboxItem) -> Effects | None:
    """Return where the handler of an event writes; None if no route of its source takes it now."""
    request = item.request
    path = request.path.decode("utf-8", "replace")
    root = request.root.decode("utf-8", "replace")
    if root and path.startswith(root + "/"):
        path = path.removeprefix(root)
    options = routes.find(request.method, path)
    if options is None or options.webhook is None or options.webhook.source.name != item.source:
        return None
    return options.worker_effects or options.effects
