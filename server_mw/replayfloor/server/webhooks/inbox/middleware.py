"""What a middleware has to say of its inbox: whether there is one, and where its handlers write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayfloor.server.policy import Effects
from replayfloor.server.requests import below
from replayfloor.server.routes import RouteTable
from replayfloor.server.settings import Settings
from replayfloor.server.webhooks.inbox.values import InboxItem

if TYPE_CHECKING:
    from replayfloor.server.webhooks.inbox.options import WorkerOptions


def fills_inbox(settings: Settings) -> bool:
    """Return whether a route acknowledges before it applies."""
    return any(
        options.webhook is not None and options.webhook.ack == "first"
        for _, options in settings.routes.routes
    )


def worker_options(settings: Settings, workers: int | None) -> WorkerOptions:
    """Return the options of the workers; `workers` stands before the middleware's own."""
    options: WorkerOptions = {
        "namespace": settings.namespace,
        "lease_s": settings.routes.defaults.lease_ms / 1000,
        "sealer": settings.sealer,
        # The workers log for themselves, and an attempt of theirs is no delivery to be counted.
        "on_event": settings.on_event,
    }
    # None of this process leaves the number to the one that applies them.
    number = settings.inbox_workers or None if workers is None else workers
    if number is not None:
        options["workers"] = number
    return options


def effects_of(routes: RouteTable, item: InboxItem) -> Effects | None:
    """Return where the handler of an event writes; None if no route of its source takes it now."""
    request = item.request
    path, root = (each.decode("utf-8", "replace") for each in (request.path, request.root))
    options = routes.find(request.method, below(root, path))
    if options is None or options.webhook is None or options.webhook.source.name != item.source:
        return None
    return options.worker_effects or options.effects
