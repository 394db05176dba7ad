"""What a route knows of the webhooks it receives. A value; made by `route.webhook`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast
from urllib.parse import unquote_to_bytes

from replayfloor.core.errors import UsageError
from replayfloor.retention.errors import HorizonUnknown
from replayfloor.retention.parties import Sender
from replayfloor.server.webhooks.delivery import Delivery, Verifier
from replayfloor.server.webhooks.source import WebhookSource

Acknowledge: TypeAlias = Literal["after", "first"]
PastHorizon: TypeAlias = Literal["acknowledge", "handler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookKey:
    """What `webhook` returns, for the `key` of a Route. See there for the meanings.

    `unverified`: nobody has said that deliveries need not be verified here.
    """

    source: WebhookSource
    verify: Verifier | None
    endpoint: str | None
    ack: Acknowledge
    past_horizon: PastHorizon
    ordered: bool
    unverified: bool

    @property
    def sender(self) -> Sender:
        """How long the sender may deliver again, for `InboundPolicy(senders=…)`.

        Raises HorizonUnknown if the source does not say.
        """
        if self.source.sender is None:
            raise HorizonUnknown(
                f"nobody says for how long {self.source.name!r} delivers again",
                advice="give its source a sender=, or make a Sender with figures of your own",
            )
        return self.source.sender

    def scope(self, path: str) -> str:
        """Return whose the ids of the events are: one endpoint's (Standard Webhooks, Headers).

        `path` may be escaped. What routers take for one path is one endpoint: they decode it, "%2F"
        too, and a pattern that ends in "$" takes a line break at the end as well. If such spellings
        were endpoints of their own, whoever has seen one delivery could have it applied once more.
        """
        if self.endpoint is not None:
            return "webhook/" + self.endpoint
        return "webhook/" + unquote_to_bytes(path).removesuffix(b"\n").decode("latin-1")


def require_verified(verifier: Verifier, delivery: Delivery) -> None:
    """Let a verifier judge. Raises what it raises, and UsageError if it returns anything.

    A verifier refuses by raising. One that returns False, or a coroutine, which nobody awaits, has
    refused nothing and may mean to have.
    """
    said = cast("Callable[[Delivery], object]", verifier)(delivery)
    if inspect.iscoroutine(said):
        said.close()
    if said is not None:
        raise UsageError(
            f"verify returned a {type(said).__name__}: a verifier raises InvalidSignature for a "
            "delivery that is not its sender's, and returns nothing"
        )
